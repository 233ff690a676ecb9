/** The suites of CI after `npm test`, as data. `select.ts` chooses from this table. */
import { PROCESSES } from '../unit.ts'

export interface Suite {
  name: string
  /** The npm script and its arguments. */
  command: readonly string[]
  /** Faults that no cheaper suite can find. */
  finds: string
  /** Minutes on two idle cores, installations included. */
  minutes: number
  /** A change of a matching path affects the suite. */
  paths: RegExp
  /** The suite also runs the unit tests among its paths. Unit tests do not affect the others. */
  runsUnitTests?: true
  /** Entry files: a change of a file that they import, directly or through others, affects the suite too. */
  entries?: readonly string[]
}

/** Changes that affect every suite: the installed software, and the programs that run the suites. */
export const EVERYTHING =
  /^(bun\.lock|bunfig\.toml|package\.json|\.setup\/|tools\/(kit\/(run|playwright|tally|scratch)|service\/(service|test-postgres)|test\/(e2e|unit))\.ts)/

/** In the order of execution: suites that find most come first. */
export const SUITES: readonly Suite[] = [
  {
    name: 'dependencies',
    command: ['audit:dependencies'],
    finds: 'a package with a known fault, an unlocked version or another licence',
    minutes: 0.1,
    paths: /^(bun\.lock|package\.json|tools\/check\/audit\.ts)$/,
  },
  {
    name: 'security',
    command: ['test:security'],
    finds: 'an escape from a sandbox, a secret in an answer, a right that one route forgets',
    minutes: 5.5,
    paths: /^(app|lake|sidecars|console|e2e\/security)\//,
  },
  {
    name: 'faults',
    command: ['test:faults'],
    finds: 'a loss or a repetition after the kill, pause or full disk of a real process',
    minutes: 6,
    paths:
      /^(workers|drizzle|machines|sidecars|e2e\/faults|app\/(runs|versions|iceberg|attempt-access|objects|core|wire|http|retention|triggers|schedules|entry))\b/,
  },
  {
    name: 'processes',
    command: ['test:processes'],
    finds:
      'a fault of engines, the runner, the supervisor or the reaper at their limits, and of seeds of the simulation',
    minutes: 1.7,
    paths: /^(sidecars\/(engine|query|runner|sandbox|supervisor)|workers|machines|simulation)\//,
    entries: PROCESSES,
  },
  {
    name: 's3',
    command: ['test:interop', '--', 's3'],
    finds: 'a difference between S3 and the disk store, or between the embedded and another PostgreSQL',
    minutes: 2.4,
    paths:
      /^(drizzle|app\/(objects|s3|files|landing-zones|versions|iceberg|attempt-access|composition)|sidecars\/objects)\/|\/store(\/|\.ts$)/,
  },
  {
    name: 'python',
    command: ['test:interop', '--', 'python'],
    finds: 'values of pandas, polars and pyarrow, in each kind of sandbox',
    minutes: 2,
    runsUnitTests: true,
    paths: /^sidecars\/(runner\/python|runner\/engine|sandbox|rpc)\//,
  },
  {
    name: 'readers',
    command: ['test:interop', '--', 'readers'],
    finds: "a table that PyIceberg, DuckDB, chDB or Sail reads differently, or a request of Apache's kit",
    minutes: 2.9,
    paths: /^(lake\/iceberg|app\/(versions|iceberg|attempt-access|s3)|tools\/test\/(engines|rest-kit))\b/,
  },
  {
    name: 'browser',
    command: ['test:interop', '--', 'browser'],
    finds: 'a fault of Swagger UI or the alert rules that only a browser or promtool shows',
    minutes: 1,
    paths: /^(app\/(swagger|home)|e2e\/browser|tools\/observability)\/|^app\/core\/metrics\.ts$/,
  },
  {
    name: 'pauses',
    command: ['test:interop', '--', 'pauses'],
    finds: 'a leader that still writes after a pause of a minute',
    minutes: 2.4,
    paths: /^(workers\/leadership|e2e\/faults\/leadership)/,
  },
  {
    name: 'console',
    command: ['test:console'],
    finds: 'a page that a person cannot use: layout, keyboard, contrast, live data',
    minutes: 7,
    paths: /^(console|e2e\/console|app\/inspector)\/|^ground\/names|^app\/.*(routes|schema)\.ts$/,
  },
  {
    name: 'simulation',
    command: ['simulate', '--', '--seeds', '300', '--processes', '2', '--from', 'random'],
    finds: 'an order of steps, crashes and pauses that breaks an invariant',
    minutes: 1.3,
    paths: /^(machines|drizzle|simulation)\//,
    entries: ['simulation/main.ts'],
  },
  {
    name: 'fleet',
    command: ['test:replicas', '--', '--only', 'e2e,restart,kills'],
    finds: 'state that one replica keeps for itself, and clients that notice a restart or a kill',
    minutes: 6,
    paths:
      /^(drizzle|workers|sidecars\/(rpc|objects|query)|app\/(runs|triggers|schedules|webhooks|versions|iceberg|attempt-access|objects|rpc|replicas|http|wire)|tools\/test\/replicas)\//,
  },
  {
    name: 'upgrade',
    command: ['test:replicas', '--', '--only', 'upgrade'],
    finds: 'a migration or message that the version before it does not bear',
    minutes: 1.7,
    paths: /^(drizzle\/migrations|proto|lake\/pipeline\/config|tools\/test\/replicas)/,
  },
  {
    name: 'runtimes',
    command: ['test:runtimes'],
    finds: 'an answer of the API that differs on Node or Deno',
    minutes: 1.1,
    paths: /^ground\/|^app\/(http|wire|config|core|s3|entry|composition)|^tools\/test\/runtimes/,
  },
  {
    name: 'sail',
    command: ['test:sail'],
    finds: 'Spark SQL that Sail executes differently from DuckDB, and losses of Sail',
    minutes: 4,
    paths:
      /^(sidecars\/(spark|runner\/(attempt|write))|lake\/iceberg|app\/(versions|iceberg|attempt-access|s3)|tools\/test\/(sail|engines))\b/,
  },
  {
    name: 'engines',
    command: ['test:engines'],
    finds: 'a table or a branch that Spark or Trino reads or writes differently',
    minutes: 6,
    paths:
      /^(sidecars\/spark|lake\/iceberg\/format|app\/(versions|iceberg|attempt-access|s3)|tools\/test\/(jvm-engines|engines))\b/,
  },
  {
    name: 'clients',
    command: ['test:clients'],
    finds:
      'an OpenAPI document that linters refuse, that breaks released clients or from which no client can be generated',
    minutes: 1.5,
    paths: /^(docs\/openapi|tools\/test\/clients)/,
  },
  {
    name: 'fuzz',
    command: ['fuzz'],
    finds: 'a request that nobody thought of and that gets a 500 or an undeclared answer',
    minutes: 2.3,
    paths: /^(app\/|ground\/|e2e\/(api\/fuzz|kit\/document))/,
  },
  {
    name: 'clock',
    command: ['test:clock'],
    finds: 'a schedule or cron that fires wrongly in real time',
    minutes: 1.8,
    paths: /^(workers\/(scheduler|triggers)|machines\/cron|app\/(schedules|triggers)\/|e2e\/clock)/,
  },
  {
    name: 'packages',
    command: ['test:packages'],
    finds: 'an archive, image, chart or unit that does not start',
    minutes: 1.7,
    paths: /^(tools\/(packages|test\/packages)|sidecars\/(supervisor|core)|app\/config|LICENSE)/,
  },
]
