import { expect, test } from 'bun:test'
import { fileURLToPath } from 'node:url'
import { Code, ConnectError, createClient } from '@connectrpc/connect'
import { runnerAt } from '../../app/rpc/clients.ts'
import { makePool } from '../../app/rpc/pool.ts'
import { QueryService } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { until } from '../../tools/kit/until.ts'
import { startRunner } from '../runner/testing.ts'
import { openKernel } from '../sandbox/kernel.ts'
import { testAccess, transportToSidecar } from './testing.ts'

const WITHOUT_LANDLOCK = fileURLToPath(new URL('../sandbox/no-landlock.child.ts', import.meta.url))
const API = 'http://127.0.0.1:8080'
const REASON = 'engine processes cannot be confined: landlock: landlock_restrict_self: EPERM (1)'

const hasLandlock = process.platform === 'linux' && openKernel().hasLandlock()

test.if(hasLandlock)('a runner that cannot confine its engines executes nothing and says why', async () => {
  const runner = await startRunner({ API_URLS: API }, [process.execPath, WITHOUT_LANDLOCK])
  try {
    const code = (call: Promise<unknown>) =>
      call.then(
        () => 'answered',
        (error: unknown) => [ConnectError.from(error).rawMessage, Code[ConnectError.from(error).code]],
      )
    for (const submit of [runner.client.submitPipeline, runner.client.submitPipelines])
      expect(await code(submit({}))).toEqual([REASON, 'ResourceExhausted'])
    expect(await code(runner.client.validatePipeline({}))).toEqual([REASON, 'Unavailable'])
    const followed = async () => {
      for await (const message of runner.client.streamLogs({ handle: 'x' })) return message
    }
    expect(await code(followed())).toEqual([REASON, 'Unavailable'])
    const query = createClient(QueryService, transportToSidecar(runner.url))
    expect(await code(query.previewPipeline({}))).toEqual([REASON, 'Unavailable'])

    const pool = makePool('runner', [runnerAt(runner.url, () => {}, testAccess(API))])
    await expect(pool.check(AbortSignal.timeout(5_000))).rejects.toMatchObject({
      errors: [{ message: `executes nothing: ${REASON}` }],
    })
  } finally {
    await runner.stop()
  }
})

test.if(hasLandlock)('SANDBOX=off lets a runner execute without confined engines', async () => {
  const runner = await startRunner({ API_URLS: API, SANDBOX: 'off', PYTHON_BIN: '/nowhere' }, [
    process.execPath,
    WITHOUT_LANDLOCK,
  ])
  try {
    const pool = makePool('runner', [runnerAt(runner.url, () => {}, testAccess(API))])
    expect(await until(() => pool.check(AbortSignal.timeout(5_000)).catch(() => null))).toBe('none')
  } finally {
    await runner.stop()
  }
})
