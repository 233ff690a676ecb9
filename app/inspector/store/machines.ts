// The inspector's queries on runs, drafts and triggers. They only read.
import { draftInstances } from './drafts.ts'
import { runInstances } from './runs.ts'
import { triggerInstances } from './triggers.ts'

export const STORES = { run: runInstances, draft: draftInstances, trigger: triggerInstances }

export type FoundInstance = NonNullable<Awaited<ReturnType<(typeof STORES)[keyof typeof STORES]['find']>>>
