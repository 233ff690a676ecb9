import { expect, test } from 'bun:test'
import { makeAdmission } from './admission.ts'

test('one user runs a tenth of the parallel queries, and gets 503 beyond', async () => {
  const admitted = makeAdmission(20)
  const end = Promise.withResolvers<void>()
  const run = (user: string | null) => admitted(() => end.promise, user)
  const running = [run('ann'), run('ann')]
  await expect(run('ann')).rejects.toMatchObject({
    status: 503,
    message: expect.stringContaining('2 queries of user ann are running, the limit of one user'),
  })
  running.push(run('bob'), ...Array.from({ length: 17 }, () => run(null)))
  await expect(run(null)).rejects.toMatchObject({ status: 503 })
  end.resolve()
  await Promise.all(running)
  await admitted(async () => {}, 'ann')
})
