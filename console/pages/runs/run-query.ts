import { api, ok } from '../../api/client.ts'

export const runQuery = (id: string) => () => ok(api.runs({ id }).get())
export type Run = Awaited<ReturnType<ReturnType<typeof runQuery>>>
