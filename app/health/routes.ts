import process from 'node:process'
import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Config } from '../core/config.ts'
import type { Metrics } from '../core/metrics.ts'
import { literals } from '../core/names.ts'
import type { HealthService } from './service.ts'

const State = literals(['healthy', 'unhealthy'], {
  title: 'HealthState',
  description: 'As it was found within the last seconds',
})
const Alive = t.Object({ status: t.Literal('healthy') }, { title: 'Health' })
const Live = t.Object(
  {
    status: t.Literal('healthy'),
    version: t.String(),
    go_version: t.String({ description: 'The runtime and its version', examples: ['bun1.4.5'] }),
    build_time: t.String(),
    git_commit: t.String(),
  },
  { title: 'Liveness' },
)
const Ready = t.Object(
  {
    status: literals(['ok', 'degraded'], { title: 'ReadinessStatus' }),
    services: t.Object(
      {
        postgres: State,
        s3: State,
        runner: State,
        query: State,
        auth_plugin: t.Optional(State),
        sharing_plugin: t.Optional(State),
        enforcement_plugin: t.Optional(State),
      },
      { title: 'ServiceStates' },
    ),
    python: t.Optional(
      t.Union(
        [t.Null(), t.Object({ sandbox: t.String(), version: t.String() }, { title: 'PythonSandbox' })],
        {
          description:
            'What pipelines in Python run in, the weakest of all runners: bubblewrap, landlock or none. Null: they cannot run',
        },
      ),
    ),
    engines: t.Object(
      { runner: t.Optional(t.String()), query: t.Optional(t.String()) },
      {
        title: 'EngineSandboxes',
        description:
          'What the processes that execute SQL run behind, beside the lock of the engine itself: landlock, seccomp or none',
      },
    ),
    details: t.Record(t.String(), t.String(), {
      title: 'ReadinessDetails',
      description: 'Why a service is unhealthy, or healthy and begins nothing new (a lack of disk space)',
    }),
  },
  { title: 'Readiness' },
)

type Build = Pick<Config, 'version' | 'gitCommit' | 'buildTime'>

/** Needs no credential, because load balancers and monitors have none. */
export const healthRoutes = (health: HealthService, metrics: Metrics, build: Build) =>
  new Elysia({ strictPath: true, tags: ['health'] })
    .get(
      '/health',
      ({ set }) => {
        set.headers['content-type'] = 'application/json'
        return { status: 'healthy' } as const
      },
      {
        response: { 200: Alive },
        detail: {
          operationId: 'getHealth',
          summary: 'Check that the process runs',
          description: 'Checks no dependency. Needs no credential.',
        },
      },
    )
    .get('/health/live', () => liveness(build), {
      response: { 200: Live },
      detail: {
        operationId: 'getLiveness',
        summary: 'Get the build that runs',
        description: 'The version, the runtime, the commit and the build time.',
      },
    })
    .get(
      '/health/ready',
      async ({ status }) => {
        const { ready, ...found } = await health.readiness()
        return ready ? status(200, { status: 'ok', ...found }) : status(503, { status: 'degraded', ...found })
      },
      {
        response: { 200: Ready, 503: Ready },
        detail: {
          operationId: 'getReadiness',
          summary: 'Check every dependency',
          description: 'A part that is switched off is shown as unhealthy but is not required.',
        },
      },
    )
    .get(
      '/metrics',
      async ({ set }) => {
        set.headers['content-type'] = metrics.contentType
        return await metrics.text()
      },
      {
        response: { 200: t.String() },
        detail: {
          operationId: 'getMetrics',
          summary: 'Get the metrics',
          description: 'In the Prometheus text format.',
        },
      },
    )

const liveness = ({ version, gitCommit, buildTime }: Build) => ({
  status: 'healthy' as const,
  version,
  go_version: runtime(),
  build_time: buildTime,
  git_commit: gitCommit,
})

/** The specification named this field after another runtime. */
const runtime = () => {
  const { bun, deno, node }: Partial<Record<string, string>> = process.versions
  // Bun and Deno also set `node`.
  return bun ? `bun${bun}` : deno ? `deno${deno}` : `node${node}`
}
