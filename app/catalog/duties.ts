// The reaper's duties in the lake, as workers/reaper/reaper.ts calls them. See ADR 16.
export { expireSnapshots } from './snapshot-expiry.ts'
export { expireLakeHistory } from './store/history.ts'
export { removeUnreferencedFiles } from './unreferenced-files.ts'
