import process from 'node:process'
import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Config } from '../config/config.ts'
import type { Metrics } from '../core/metrics.ts'
import { literals } from '../core/names.ts'
import type { HealthService } from './service.ts'

const State = literals(['healthy', 'unhealthy'], {
  title: 'HealthState',
  description: 'Result of the latest check, which is a few seconds old at most',
})
const Alive = t.Object({ status: t.Literal('healthy') }, { title: 'Health' })
const Live = t.Object(
  {
    status: t.Literal('healthy'),
    version: t.String(),
    go_version: t.String({ description: 'Name and version of the runtime', examples: ['bun1.4.5'] }),
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
            'Sandbox of Python pipelines: `bubblewrap`, `landlock` or `none`. With several runners, the weakest sandbox. Null when no runner can execute Python pipelines',
        },
      ),
    ),
    engines: t.Object(
      { runner: t.Optional(t.String()), query: t.Optional(t.String()) },
      {
        title: 'EngineSandboxes',
        description:
          'Sandbox of the processes that execute SQL: `landlock`, `seccomp` or `none`. It is additional to the restrictions of the SQL engine',
      },
    ),
    details: t.Record(t.String(), t.String(), {
      title: 'ReadinessDetails',
      description:
        'Reason why a service is unhealthy, or why a healthy service starts no new work, such as a lack of disk space',
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
          description: 'Returns 200 while the process runs. It checks no dependency and needs no credential.',
        },
      },
    )
    .get('/health/live', () => liveness(build), {
      response: { 200: Live },
      detail: {
        operationId: 'getLiveness',
        summary: 'Get the version of the running build',
        description: 'Returns the version, the runtime, the commit and the build time.',
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
          description:
            'Returns 200 when all required dependencies are healthy, otherwise 503. A dependency that is off by configuration is `unhealthy` but not required.',
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
          description: 'Returns the metrics in the Prometheus text format.',
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

/** The specification requires the name `go_version`, although the runtime is not Go. */
const runtime = () => {
  const { bun, deno, node }: Partial<Record<string, string>> = process.versions
  // Bun and Deno also set `node`.
  return bun ? `bun${bun}` : deno ? `deno${deno}` : `node${node}`
}
