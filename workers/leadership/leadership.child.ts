import { makeLog } from '../../app/core/log.ts'
import { startLeadership } from './leadership.ts'

// Started by tests, to be paused and woken:
// `bun leadership.child.ts <database> <role> <holder> <lease in ms> steadily|slowly`.
// Each firing is a row with its holder and the epoch it was written in. `slowly` stays inside its transaction until it is
// told on stdin to go on, and then writes once more before it commits.

const [databaseUrl = '', role = '', holder = '', leaseMs = '', mode] = process.argv.slice(2)
const tell = (line: string) => process.stdout.write(`${line}\n`)
tell(`pid ${process.pid}`)
const lines = console[Symbol.asyncIterator]()
const leadership = startLeadership({
  databaseUrl,
  role,
  holder,
  log: makeLog('child', 'text', () => true),
  onChange: (isLeading) => tell(isLeading ? 'leads' : 'follows'),
  leaseMs: Number(leaseMs),
  // Often, however long the lease is: a follower asks as often as a leader renews.
  renewMs: 300,
})

for (;;) {
  await leadership
    .write(async (tx) => {
      const fire = () => tx`
        insert into firing (holder, epoch) select ${holder}, epoch from leader where role = ${role}`
      await fire()
      if (mode !== 'slowly') return
      tell('inside')
      await lines.next()
      await fire()
    })
    .then(
      (done) => done === null || tell('fired'),
      () => tell('failed'),
    )
  // Others have their turn; how long it takes does not matter to any test.
  await new Promise((resolve) => setTimeout(resolve, 2))
}
