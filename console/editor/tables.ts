import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { schemaQuery } from '../api/tables.ts'
import { type Completion, columnsOf, type LakeTable, mentionsIn } from './completion.ts'

const NONE: readonly LakeTable[] = []

/** All tables of main or of a branch, once a person writes. */
export function useTables(isWriting: boolean, branch = ''): readonly LakeTable[] {
  const { data } = useQuery({ ...schemaQuery(branch), enabled: isWriting })
  return data?.tables ?? NONE
}

/** The columns of the tables that a text mentions. `namespace` is the one of names without a namespace. */
export function useColumns(text: string, namespace: string, tables: readonly LakeTable[]): Completion[] {
  const mentions = useMemo(
    () => (tables.length === 0 ? '[]' : JSON.stringify(mentionsIn(text, namespace))),
    [text, namespace, tables],
  )
  return useMemo(() => columnsOf(JSON.parse(mentions), tables), [mentions, tables])
}
