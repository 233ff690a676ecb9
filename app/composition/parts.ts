// The parts that every piece of the composition receives.
import type { Database } from '../../drizzle/client.ts'
import type { Config } from '../config/config.ts'
import type { Background } from '../core/background.ts'
import type { Clock } from '../core/clock.ts'
import type { NewId } from '../core/ids.ts'
import type { Log } from '../core/log.ts'
import type { Metrics } from '../core/metrics.ts'
import type { ObjectStore } from '../objects/port.ts'

export interface ServiceParts {
  config: Config
  log: Log
  metrics: Metrics
  clock: Clock
  newId: NewId
  database: Pick<Database, 'db' | 'sql' | 'session'>
  /** Connections for slow statements, so that short requests do not wait behind them. */
  patient: Pick<Database, 'db' | 'sql'>
  objects: ObjectStore
  background: Background
}
