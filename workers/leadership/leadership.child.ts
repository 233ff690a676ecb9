import { makeLog } from '../../app/core/log.ts'
import { startLeadership } from './leadership.ts'

// A child process that tests pause and wake: `bun leadership.child.ts <database> <role> <holder> <lease in ms>
// steadily|slowly`. Each firing inserts a row with the holder and the current epoch. In mode `slowly` the process stays inside
// its transaction until a line arrives on stdin. The process then inserts a second row and commits.

const [databaseUrl = '', role = '', holder = '', leaseMs = '', mode] = process.argv.slice(2)
const print = (line: string) => process.stdout.write(`${line}\n`)
print(`pid ${process.pid}`)
const lines = console[Symbol.asyncIterator]()
const leadership = startLeadership({
  databaseUrl,
  role,
  holder,
  log: makeLog('child', 'text', () => true),
  onChange: (isLeading) => print(isLeading ? 'leads' : 'follows'),
  leaseMs: Number(leaseMs),
  // Short even with a long lease, because a follower challenges at the interval at which a leader renews.
  renewMs: 300,
})

for (;;) {
  await leadership
    .write(async (tx) => {
      const fire = () => tx`
        insert into firing (holder, epoch) select ${holder}, epoch from leader where role = ${role}`
      await fire()
      if (mode !== 'slowly') return
      print('inside')
      await lines.next()
      await fire()
    })
    .then(
      (done) => done === null || print('fired'),
      () => print('failed'),
    )
  // Lets other processes run. No test depends on the duration.
  await new Promise((resolve) => setTimeout(resolve, 2))
}
