import { afterEach, beforeAll, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import net from 'node:net'
import { testLog } from '../../app/composition/test-app.ts'
import { openDatabase } from '../../drizzle/client.ts'
import { eachLine } from '../../sidecars/supervisor/lines.ts'
import { until } from '../../tools/kit/until.ts'
import { useDatabase } from '../../tools/service/database.ts'
import { type Leadership, type LeadershipOptions, startLeadership } from './leadership.ts'

setDefaultTimeout(60_000)

const LEASE_MS = 900
const RENEW_MS = 300
const HOUR = 3_600_000

const opened = useDatabase({ rawConnections: 4 })
beforeAll(async () => {
  await opened.sql`create table firing (id bigserial primary key, holder text not null, epoch bigint not null)`
  // The holder of each epoch. A database trigger writes these rows.
  await opened.sql`create table reign (epoch bigint primary key, holder text not null, from_id bigint not null)`
  await opened.sql.unsafe(`
    create function reigns() returns trigger language plpgsql as $$ begin
      if tg_op = 'INSERT' or new.epoch <> old.epoch then
        insert into reign select new.epoch, new.holder, coalesce(max(id), 0) from firing;
      end if;
      return new;
    end $$;
    create trigger reigns after insert or update on leader for each row when (new.role = 'test') execute function reigns()`)
})

const started: Leadership[] = []
const children: Bun.Subprocess[] = []
beforeEach(async () => void (await opened.sql`truncate leader, firing, reign`))
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill('SIGKILL')
    await child.exited
  }
  for (const leadership of started.splice(0)) await leadership.stop()
})

interface Row {
  holder: string
  backend_pid: number
  epoch: number
  is_over: boolean
}

async function leader(): Promise<Row | undefined> {
  const [row] = await opened.sql<Row[]>`
    select holder, backend_pid, epoch::float8 as epoch, until <= clock_timestamp() as is_over from leader where role = 'test'`
  return row
}

function start(holder: string, options: Partial<LeadershipOptions> = {}) {
  const changes: boolean[] = []
  const leadership = startLeadership({
    databaseUrl: opened.url,
    role: 'test',
    holder,
    log: testLog,
    leaseMs: LEASE_MS,
    renewMs: RENEW_MS,
    onChange: (isLeading) => changes.push(isLeading),
    ...options,
  })
  started.push(leadership)
  return { ...leadership, changes }
}

const leads = (holder: string) =>
  until(leader, (row) => row?.holder === holder && !row.is_over).then((row) => row as Row)

/** Starts a single leader whose lease does not expire during the test. */
async function startLeading(options: Partial<LeadershipOptions> = {}) {
  const one = start('one', { leaseMs: HOUR, renewMs: HOUR, ...options })
  const row = await leads('one')
  await until(() => one.isLeading())
  return { one, row }
}
const backendPid = (leadership: Leadership) =>
  leadership.write(async (tx) => (await tx<{ pid: number }[]>`select pg_backend_pid() as pid`)[0]?.pid)
/** Waits until exactly one backend of this database satisfies the condition. */
const isDoing = (condition: string) =>
  until(
    () =>
      opened.sql.unsafe(`select 1 from pg_stat_activity where datname = current_database() and ${condition}`),
    (rows) => rows.length === 1,
  )
const insertGone = (backendPid: number, leftMs = 0) => opened.sql`
  insert into leader (role, holder, backend_pid, epoch, until)
  values ('test', 'gone', ${backendPid}, 7, clock_timestamp() + ${leftMs}::float8 * interval '1 ms')`

const fire = (leadership: Leadership) =>
  leadership.write(
    async (tx) =>
      void (await tx`insert into firing (holder, epoch) select 'any', epoch from leader where role = 'test'`),
  )
const firings = async (holder = 'any') =>
  (await opened.sql`select 1 from firing where holder = ${holder}`).length

test('the first replica leads at once, on the recorded connection, and renews', async () => {
  const { one, row } = await startLeading({ renewMs: 1 })
  expect(row).toMatchObject({ holder: 'one', epoch: 1, backend_pid: await backendPid(one) })
  const expiry = async () =>
    (await opened.sql<{ until: Date }[]>`select until from leader`)[0]?.until.getTime() ?? 0
  const before = await expiry()
  await until(expiry, (at) => at > before)
  expect((await leader())?.epoch).toBe(1)
})

test('one of many simultaneous challengers leads, and the others write nothing', async () => {
  const all = Array.from({ length: 8 }, (_, n) => start(`rival ${n}`, { leaseMs: HOUR, renewMs: 5 }))
  await until(() => all.filter((one) => one.isLeading()).length === 1)
  const wrote = await Promise.all(all.map((one) => one.write(async () => 'wrote')))
  expect(wrote.filter((what) => what !== null)).toHaveLength(1)
  expect((await leader())?.epoch).toBe(1)
})

test('a write with an invalid cached plan is rolled back, not resent', async () => {
  await opened.sql`create table altered (text text)`
  const { one } = await startLeading()
  const add = (text: string) =>
    one.write(async (tx) => {
      await tx`insert into altered (text) values (${text}) returning text`
      return 'added'
    })
  expect(await add('before')).toBe('added')
  await opened.sql`alter table altered alter text type varchar(100)`
  await expect(add('alone')).rejects.toMatchObject({ code: '0A000' })
  expect(await opened.sql`select text from altered`).toEqual([{ text: 'before' }] as never)
  expect(await add('after')).toBe('added')
  await opened.sql`drop table altered`
})

test('a connection lost during a takeover leaves no backend behind', async () => {
  await insertGone(1)
  const network = await startSwallowing(opened.url, 'pg_terminate_backend')
  try {
    const one = start('one', { databaseUrl: network.url, silenceMs: 500, renewMs: HOUR })
    await network.swallowed
    await until(
      () => opened.sql`
        select 1 from pg_stat_activity where datname = current_database() and application_name = 'sluice test one'`,
      (rows) => rows.length === 0,
    )
    expect((await leader())?.holder).toBe('gone')
    network.restore()
    await until(() => one.isLeading())
    expect(await leader()).toMatchObject({ holder: 'one', epoch: 8 })
    // The query above used the right application name: the new connection has it.
    await isDoing(`application_name = 'sluice test one'`)
  } finally {
    network.close()
  }
})

test('a stopped leader is replaced at once despite a long lease', async () => {
  const { one } = await startLeading({ renewMs: 5 })
  const two = start('two', { leaseMs: HOUR, renewMs: 5 })
  await one.stop()
  await leads('two')
  expect(await one.write(async () => 'wrote')).toBeNull()
  await until(() => two.isLeading())
  expect(await two.write(async () => 'wrote')).toBe('wrote')
})

test('a restarted thread takes over at once and keeps the lease', async () => {
  const old = start('process', { leaseMs: HOUR, renewMs: 5 })
  await leads('process')
  await until(() => old.isLeading())
  // The old thread loses its epoch before the new thread starts. Otherwise both would take the lease in turns.
  await opened.sql`update leader set epoch = 2`
  await until(() => old.changes.length === 2)
  const young = start('process', { leaseMs: HOUR, renewMs: 5 })
  await until(() => young.isLeading())
  // The old thread challenges repeatedly on a new connection, because its previous backend was ended.
  await isDoing(`application_name = 'sluice test process' and query = 'commit' and state = 'idle'
    and pid <> (select backend_pid from leader where role = 'test')`)
  expect(await young.write(async () => 'wrote')).toBe('wrote')
  expect(await old.write(async () => 'wrote')).toBeNull()
  expect((await leader())?.epoch).toBe(3)
  expect([old.changes, young.changes]).toEqual([[true, false], [true]])
})

test('a leader writes nothing after the end of its epoch', async () => {
  const { one } = await startLeading()
  await opened.sql`update leader set epoch = epoch + 1, holder = 'two'`
  expect(one.isLeading()).toBe(true)
  expect(await fire(one)).toBeNull()
  expect(await firings()).toBe(0)
  expect(one.isLeading()).toBe(false)
  expect(one.changes).toEqual([true, false])
})

test('a leader that loses epoch and connection reports the loss once', async () => {
  const { one, row } = await startLeading()
  await opened.sql`update leader set epoch = epoch + 1, holder = 'two', until = clock_timestamp() + interval '1 h'`
  const written = one.write(async (tx) => {
    await tx`select pg_terminate_backend(${row.backend_pid})`
  })
  await Promise.allSettled([written])
  expect(one.changes).toEqual([true, false])
})

test('a challenger that lost the race does not block the next', async () => {
  await insertGone(0)
  const late = await opened.sql.begin(async (tx) => {
    await tx`select from leader where role = 'test' for update`
    const challenger = start('late', { leaseMs: HOUR, renewMs: HOUR })
    await isDoing(`application_name = 'sluice test late' and wait_event_type = 'Lock'`)
    await tx`update leader set epoch = 8, holder = 'first' where role = 'test'`
    return challenger
  })
  // A losing challenger writes nothing and releases its locks.
  await isDoing(`application_name = 'sluice test late' and state = 'idle' and query = 'commit'`)
  const next = start('next', { leaseMs: HOUR, renewMs: HOUR })
  await until(() => next.isLeading())
  expect(late.changes).toEqual([])
  expect(await leader()).toMatchObject({ holder: 'next', epoch: 9 })
})

test('the next epoch waits for an open write of the current epoch', async () => {
  const { one } = await startLeading()
  const inside = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  const writing = one.write(async (tx) => {
    // Statements follow the fence. An answer to the first statement proves that the fence holds.
    await tx`select 1`
    inside.resolve()
    await go.promise
    await tx`insert into firing (holder, epoch) values ('any', 1)`
  })
  await inside.promise
  let hasBegun = false
  const next = opened.sql`update leader set epoch = 2`.then(() => {
    hasBegun = true
  })
  await isDoing(`wait_event_type = 'Lock' and query like 'update leader%'`)
  expect(hasBegun).toBe(false)
  go.resolve()
  await Promise.all([writing, next])
  expect(await firings()).toBe(1)
  expect(await fire(one)).toBeNull()
  expect(await firings()).toBe(1)
})

test('a leader with a lost connection leads again in a new epoch', async () => {
  const { one, row: before } = await startLeading({ renewMs: 20 })
  await opened.sql`select pg_terminate_backend(${before.backend_pid})`
  const after = await until(leader, (row) => row?.epoch === before.epoch + 1)
  await until(() => one.isLeading())
  expect(await backendPid(one)).toBe(after?.backend_pid)
  expect(one.changes).toEqual([true, false, true])
})

test('work that outlives its transaction can no longer write', async () => {
  const { one, row } = await startLeading({ renewMs: 20 })
  const inside = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  const slept = Promise.withResolvers<unknown>()
  const writing = one.write(async (tx) => {
    await tx`insert into firing (holder, epoch) values ('any', 1)`
    inside.resolve()
    await go.promise
    await tx`insert into firing (holder, epoch) values ('any', 1)`.then(slept.resolve, slept.resolve)
  })
  writing.catch(() => {})
  await inside.promise
  await opened.sql`select pg_terminate_backend(${row.backend_pid})`
  await expect(writing).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
  await until(leader, (row) => row?.epoch === 2)
  await until(() => one.isLeading())
  go.resolve()
  // An answer on the new connection proves that the late insert has been sent or rejected.
  await one.write(async () => null)
  expect(await firings()).toBe(0)
})

test('a challenger does not end a backend with a reused process id', async () => {
  const innocent = openDatabase(opened.url, { connections: 1, rawConnections: 1, application: 'innocent' })
  const [{ pid } = { pid: 0 }] = await innocent.sql<{ pid: number }[]>`select pg_backend_pid() as pid`
  await insertGone(pid)
  start('one', { leaseMs: HOUR })
  expect(await leads('one')).toMatchObject({ epoch: 8 })
  expect(await innocent.sql`select pg_backend_pid() as pid`).toEqual([{ pid }] as never)
  await innocent.close()
})

test('a lease written before the clock went back is over', async () => {
  await insertGone(0, HOUR)
  start('one')
  expect(await leads('one')).toMatchObject({ epoch: 8 })
})

test('each role has its own leader', async () => {
  const scheduler = start('one', { role: 'test', leaseMs: HOUR })
  const triggers = start('two', { role: 'another', leaseMs: HOUR })
  await until(() => scheduler.isLeading() && triggers.isLeading())
})

test('an unreachable database grants no lease, and errors of work are thrown', async () => {
  const lost = start('lost', { databaseUrl: 'postgres://127.0.0.1:1/none', renewMs: 1 })
  expect(await lost.write(async () => 'wrote')).toBeNull()
  const one = start('one', { leaseMs: HOUR })
  await until(() => one.isLeading())
  await expect(one.write(async () => Promise.reject(new Error('of the work')))).rejects.toThrow('of the work')
  expect(await one.write(async () => 'wrote')).toBe('wrote')
})

/** Starts a child process that fires whenever it leads, and collects its output. */
function spawn(holder: string, mode: 'steadily' | 'slowly', leaseMs = LEASE_MS) {
  const child = Bun.spawn(
    [
      process.execPath,
      `${import.meta.dir}/leadership.child.ts`,
      opened.url,
      'test',
      holder,
      String(leaseMs),
      mode,
    ],
    { stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' },
  )
  children.push(child)
  const outputLines: string[] = []
  void eachLine(child.stdout, (line) => outputLines.push(line))
  const count = (word: string) => outputLines.filter((line) => line === word).length
  return {
    child,
    count,
    printed: (word: string, atLeast = 1) => until(() => count(word) >= atLeast),
  }
}

/** Expects that the holder of an epoch wrote all its firings, and wrote them before the next epoch began. */
async function expectNoFiringOutOfItsReign() {
  const wrong = await opened.sql`
    select f.id, f.holder, f.epoch from firing f left join reign r on r.epoch = f.epoch
    where r.holder is distinct from f.holder
      or exists (select 1 from reign next where next.epoch > f.epoch and f.id > next.from_id)`
  expect(wrong).toEqual([] as never)
}

test('a leader paused between transactions fires nothing after it wakes', async () => {
  const old = spawn('old', 'steadily')
  await old.printed('fired', 3)
  // A lease that does not expire: with a short lease, a delayed renewal would let the old leader lead again.
  const young = spawn('young', 'steadily', HOUR)
  old.child.kill('SIGSTOP')
  await young.printed('fired', 3)
  const firedBefore = await firings('old')

  old.child.kill('SIGCONT')
  await old.printed('follows')
  const firedByYoung = await firings('young')
  await until(async () => (await firings('young')) > firedByYoung + 20)
  expect(await firings('old')).toBe(firedBefore)
  await expectNoFiringOutOfItsReign()
  expect((await leader())?.holder).toBe('young')
})

test('a leader paused inside a transaction is replaced and rolled back', async () => {
  const old = spawn('old', 'slowly')
  await old.printed('inside')
  const young = spawn('young', 'steadily', HOUR)
  old.child.kill('SIGSTOP')
  await young.printed('fired', 3)
  expect(await firings('old')).toBe(0)

  // The child reads `go on` for its second insert before it can notice that its transaction has ended.
  old.child.stdin.write('go on\n')
  old.child.stdin.flush()
  old.child.kill('SIGCONT')
  await old.printed('failed')
  const firedByYoung = await firings('young')
  await until(async () => (await firings('young')) > firedByYoung + 20)
  expect(await firings('old')).toBe(0)
  await expectNoFiringOutOfItsReign()
})

test('leaders paused at random moments never fire outside their epochs', async () => {
  const all = ['a', 'b', 'c'].map((holder) => spawn(holder, 'steadily'))
  for (let round = 0; round < 4; round++) {
    const [{ epoch, holder } = { epoch: 0, holder: '' }] = await until(
      () => opened.sql<Row[]>`
        select holder, epoch::float8 as epoch from leader
        where role = 'test' and until > clock_timestamp() and exists (select from firing where firing.epoch = leader.epoch)`,
      (rows) => rows.length > 0,
    )
    const current = all['abc'.indexOf(holder)]
    current?.child.kill('SIGSTOP')
    await until(leader, (row) => row !== undefined && row.epoch > epoch)
    current?.child.kill('SIGCONT')
    await current?.printed('follows')
  }
  await expectNoFiringOutOfItsReign()
  expect((await opened.sql`select 1 from firing`).length).toBeGreaterThan(0)
})

/** A proxy that forwards everything until the client sends `word`. It drops that packet and all later data. */
async function startSwallowing(databaseUrl: string, word: string) {
  const { hostname, port } = new URL(databaseUrl)
  const swallowed = Promise.withResolvers<void>()
  const open = new Set<net.Socket>()
  let isWhole = false
  const proxy = net.createServer((client) => {
    const server = net.connect(Number(port), hostname)
    let isSilent = false
    client.on('data', (bytes) => {
      if (!isWhole && bytes.includes(word)) {
        isSilent = true
        swallowed.resolve()
      }
      if (!isSilent) server.write(bytes)
    })
    server.on('data', (bytes) => void (!isSilent && client.write(bytes)))
    client.on('close', () => void (!isSilent && server.destroy()))
    for (const socket of [client, server]) {
      open.add(socket)
      socket.on('error', () => {})
    }
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const bound = proxy.address()
  const url = new URL(databaseUrl)
  url.port = String(typeof bound === 'object' ? bound?.port : 0)
  const cut = () => {
    for (const socket of open) socket.destroy()
  }
  return {
    url: url.href,
    swallowed: swallowed.promise,
    /** Cuts all connections and forwards everything on new connections. */
    restore() {
      isWhole = true
      cut()
    },
    close() {
      cut()
      proxy.close()
    },
  }
}
