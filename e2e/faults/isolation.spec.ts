// Readers of main never see rows of a branch that was not merged, while writers act on branches and parts of the service die.
import { expect, test } from '@playwright/test'
import { startTree, type Tree, until } from './tree.ts'

const WRITERS = 4
const OPERATIONS = 250
const PARTS = ['api', 'runner', 'query', 'postgres'] as const
/** A part dies each time the writers have done this many operations. */
const OPERATIONS_PER_KILL = 20
/** Two of five rounds never reach main: a writer deletes the branch, or a test fails. */
const DELETED_ROUND = 3
const REFUSED_ROUND = 4
/** The number of rows in each state of the table that a writer restores. */
const RESTORED_ROWS = [1, 2, 3]

let tree: Tree
test.beforeAll(async () => {
  tree = await startTree()
})
test.afterAll(() => tree?.stop())

/** The states that a writer has asked main to show, in order. The state at `settled` was confirmed. */
interface Shown {
  asked: number[]
  settled: number
}

test('a reader of main sees only merged rows during 250 writes, merges and restores', async () => {
  const shown = Array.from({ length: WRITERS + 1 }, (): Shown => ({ asked: [], settled: 0 }))
  const progress = { operations: 0, isOver: false, kills: 0 }
  const count = () => ++progress.operations < OPERATIONS

  const restorable = await preparedTable(shown[WRITERS] as Shown)
  for (let n = 0; n < WRITERS; n++) await preparedPair(n, shown[n] as Shown)

  const writers = shown.slice(0, WRITERS).map((own, n) => writePairs(n, own, count))
  const written = Promise.all([...writers, restoreTables(restorable, shown[WRITERS] as Shown, count)])
  const [, , ...counts] = await Promise.all([
    written.finally(() => {
      progress.isOver = true
    }),
    kill(progress),
    readByQuery(shown, progress),
    readByCatalog(shown, progress),
  ])
  console.log(
    `${progress.operations} operations, ${progress.kills} kills, reads: ${counts[0]} by query, ${counts[1]} by Iceberg REST`,
  )
  for (const reads of counts) expect(reads).toBeGreaterThan(OPERATIONS / 10)
  expect(progress.kills).toBeGreaterThanOrEqual(Math.floor(OPERATIONS / OPERATIONS_PER_KILL) - 1)
})

/** Two tables that a writer changes together. A test refuses the rows of each fifth round. */
async function preparedPair(n: number, own: Shown) {
  for (const side of ['left', 'right']) {
    const name = `${side}_${n}`
    await tree.publish(name, rowsOfRound(1))
    const sql = `select * from {{ this }} where round % 5 = ${REFUSED_ROUND}`
    const body = { name: 'accepted-rounds', severity: 'error', sql }
    expect((await tree.call('POST', `/pipelines/default/gold/${name}/tests`, body)).status).toBe(201)
    await tree.publish(name, rowsOfRound(1))
    expect((await tree.ended(await tree.requestRun(name))).status).toBe('success')
  }
  own.asked.push(1)
}

/** A table with three states on main; returns their commits. */
async function preparedTable(own: Shown): Promise<number[]> {
  const commits: number[] = []
  for (const rows of RESTORED_ROWS) {
    await tree.publish('restored', rowsOfRound(rows))
    const { merged_commit } = await tree.ended(await tree.requestRun('restored'))
    commits.push(merged_commit as number)
  }
  own.asked.push(...RESTORED_ROWS)
  own.settled = own.asked.length - 1
  return commits
}

/** Each round is a branch, a run of each table on the branch, and the end of the branch. */
async function writePairs(n: number, own: Shown, count: () => boolean) {
  for (let round = 2; ; round++) {
    const branch = `w${n}-${round}`
    await opened(branch)
    const ends = await Promise.all(['left', 'right'].map((side) => drafted(`${side}_${n}`, branch, round)))
    expect(ends).toEqual(
      round % 5 === REFUSED_ROUND ? ['failed', 'failed'] : Array(ends.length).fill('success'),
    )
    count()
    count()
    if (round % 5 === REFUSED_ROUND || round % 5 === DELETED_ROUND) await deleted(branch)
    else await merged(branch, round, own)
    if (!count()) return
  }
}

/** Each round writes the table on a branch that is never merged, and restores the table of main. */
async function restoreTables(commits: number[], own: Shown, count: () => boolean) {
  for (let round = 1; ; round++) {
    const branch = `restored-${round}`
    await opened(branch)
    expect(await drafted('restored', branch, 100 + round)).toBe('success')
    count()
    const to = round % commits.length
    own.asked.push(RESTORED_ROWS[to] as number)
    await answered('POST', '/tables/default/gold/restored/restore', { commit: commits[to] }, [200])
    own.settled = own.asked.length - 1
    count()
    await deleted(branch)
    if (!count()) return
  }
}

const rowsOfRound = (round: number) => `select ${round} as round from range(${round})`

/** Repeats a request until one of the statuses is its answer. A part may be dead meanwhile. */
const answered = async (
  method: string,
  path: string,
  body: object | undefined,
  statuses: number[],
  headers?: Record<string, string>,
) => {
  const answer = await until(
    () => tree.call<Record<string, unknown>>(method, path, body, headers),
    ({ status }) => statuses.includes(status),
  )
  return { status: answer.status, body: answer.body }
}

// A repeated request meets the result of its first attempt, whose answer was lost.
const opened = (name: string) => answered('POST', '/branches', { name }, [201, 409])
const deleted = (name: string) => answered('DELETE', `/branches/${name}`, undefined, [204, 404])

/** Executes the draft on the branch; resolves with the status of the run. */
async function drafted(pipeline: string, branch: string, round: number): Promise<string> {
  const source = `/files/default/pipelines/gold/${pipeline}/pipeline.sql`
  await answered('PUT', source, { content: rowsOfRound(round) }, [200])
  const run = { namespace: 'default', layer: 'gold', pipeline, branch, draft: true }
  const key = { 'idempotency-key': `${pipeline}-${branch}` }
  const { body } = await answered('POST', '/runs', run, [202], key)
  return (await tree.ended(String(body.run_id))).status
}

async function merged(branch: string, round: number, own: Shown) {
  own.asked.push(round)
  const { status } = await answered('POST', `/branches/${branch}/merge`, {}, [200, 404, 409])
  // 404: the merge happened, and its answer was lost.
  const { body } = await answered('GET', `/branches/${branch}`, undefined, [200])
  expect([status, body]).toEqual([
    expect.not.stringMatching('409'),
    expect.objectContaining({ status: 'merged' }),
  ])
  own.settled = own.asked.length - 1
}

/** The next part dies after each further number of operations. */
async function kill(progress: { operations: number; isOver: boolean; kills: number }) {
  for (let next = OPERATIONS_PER_KILL; ; next += OPERATIONS_PER_KILL) {
    await until(
      async () => progress,
      ({ operations, isOver }) => isOver || operations >= next,
      Number.POSITIVE_INFINITY,
    )
    if (progress.isOver) return
    const part = PARTS[progress.kills++ % PARTS.length] as string
    const pid = await until(
      () => tree.pidOf(part),
      () => true,
    )
    process.kill(pid, 'SIGKILL')
    await until(
      () => tree.pidOf(part),
      (newer) => newer !== pid,
    )
  }
}

/** Reads until the writers have ended; returns the number of answers. Failed requests count as no answer. */
async function readWhile<Seen>(
  progress: { isOver: boolean },
  shown: Shown[],
  read: () => Promise<Seen | undefined>,
  check: (seen: Seen, allowed: number[][]) => void,
) {
  let answers = 0
  while (!progress.isOver) {
    const from = shown.map(({ settled }) => settled)
    const seen = await read().catch(() => undefined)
    if (seen === undefined) {
      await new Promise((resolve) => setTimeout(resolve, 10))
      continue
    }
    answers++
    check(
      seen,
      shown.map(({ asked }, n) => asked.slice(from[n])),
    )
  }
  return answers
}

interface Cells {
  [name: string]: number
}

/** One query sees one commit of main: both tables of a writer are in the same round. */
function readByQuery(shown: Shown[], progress: { isOver: boolean }) {
  const tables = [...Array(WRITERS).keys()].flatMap((n) => [`left_${n}`, `right_${n}`])
  const cells = [...tables, 'restored'].map(
    (name) => `(select [count(*), min(round), max(round)]::int[] from gold.${name}) as ${name}`,
  )
  const sql = `select ${cells.join(', ')}`
  return readWhile(
    progress,
    shown,
    async () => {
      const { status, body } = await tree.call<{ rows: Cells[] }>('POST', '/query', { sql })
      return status === 200 ? (body.rows[0] as unknown as Record<string, number[]>) : undefined
    },
    (seen, allowed) => {
      for (let n = 0; n < WRITERS; n++) {
        expect(seen[`left_${n}`]).toEqual(seen[`right_${n}`])
        expectOneOf(seen[`left_${n}`], allowed[n])
      }
      expectOneOf(seen.restored, allowed[WRITERS])
    },
  )
}

/** The rows of a state are as many as its round, so one of the allowed rounds explains all three figures. */
function expectOneOf(seen: number[] | undefined, allowed: number[] | undefined) {
  expect(allowed?.map((round) => [round, round, round])).toContainEqual(seen)
}

/** The metadata that engines load states the number of rows. */
function readByCatalog(shown: Shown[], progress: { isOver: boolean }) {
  let next = 0
  return readWhile(
    progress,
    shown,
    async () => {
      const writer = next++ % (WRITERS + 1)
      const table = writer === WRITERS ? 'restored' : `${next % 2 === 0 ? 'left' : 'right'}_${writer}`
      const response = await fetch(
        `${tree.url}/iceberg/v1/sluice/namespaces/default%1Fgold/tables/${table}`,
        { signal: AbortSignal.timeout(30_000) },
      )
      if (response.status !== 200) return undefined
      return { writer, metadata: await response.text() }
    },
    ({ writer, metadata }, allowed) => {
      expect(allowed[writer]).toContain(rowsOfMetadata(metadata))
    },
  )
}

/** The rows of the current snapshot. Snapshot ids are compared as text, because they exceed what a number can hold. */
function rowsOfMetadata(metadata: string): number {
  const exact = metadata.replace(/("(?:current-)?snapshot-id"\s*:\s*)(\d+)/g, '$1"$2"')
  const { 'current-snapshot-id': current, snapshots } = JSON.parse(exact).metadata
  const snapshot = snapshots.find((each: { 'snapshot-id': string }) => each['snapshot-id'] === current)
  return Number(snapshot.summary['total-records'])
}
