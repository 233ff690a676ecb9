// The reaper's duties in the lake, called by workers/reaper/reaper.ts. See ADR 16.
export { expireSnapshots } from './snapshot-expiry.ts'
export { expireLakeHistory } from './store/history.ts'
export {
  cancelMaintenance,
  failMaintenance,
  type MaintenanceBranch,
  maintainableTables,
  mergeMaintenance,
  openMaintenance,
} from './store/maintenance.ts'
export { removeUnreferencedFiles, STORE_CLOCK } from './unreferenced-files.ts'
