import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { api, ok } from '../api/client.ts'
import { type Completion, columnsOf, type LakeTable, mentionsIn } from './completion.ts'

/** Tables change when a pipeline runs for the first time, so they need not be read often. */
const TABLES_MS = 60_000
const NONE: readonly LakeTable[] = []

/** All tables of main or of a branch, once a person writes. */
export function useTables(isWriting: boolean, branch = ''): readonly LakeTable[] {
  const { data } = useQuery({
    queryKey: ['tables', 'schema', branch],
    queryFn: () => ok(api.schema.get({ query: branch ? { branch } : {} })),
    staleTime: TABLES_MS,
    enabled: isWriting,
    // A comparison of thousands of tables takes longer than all that uses them.
    structuralSharing: false,
  })
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
