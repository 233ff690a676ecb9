import process from 'node:process'
import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Config } from '../config.ts'
import type { Metrics } from '../metrics.ts'
import type { HealthService } from './service.ts'

const State = t.Union([t.Literal('healthy'), t.Literal('unhealthy')])
const Alive = t.Object({ status: t.Literal('healthy') })
const Live = t.Object({
  status: t.Literal('healthy'),
  version: t.String(),
  go_version: t.String({ description: 'The runtime and its version', examples: ['bun1.4.5'] }),
  build_time: t.String(),
  git_commit: t.String(),
})
const Ready = t.Object({
  status: t.Union([t.Literal('ok'), t.Literal('degraded')]),
  services: t.Object({
    postgres: State,
    s3: State,
    runner: State,
    query: State,
    auth_plugin: t.Optional(State),
    sharing_plugin: t.Optional(State),
    enforcement_plugin: t.Optional(State),
  }),
  python: t.Optional(
    t.Union([t.Null(), t.Object({ sandbox: t.String(), version: t.String() })], {
      description:
        'What pipelines in Python run in, the weakest of all runners: bubblewrap, landlock or none. Null: they cannot run',
    }),
  ),
  engines: t.Object(
    { runner: t.Optional(t.String()), query: t.Optional(t.String()) },
    {
      description:
        'What the processes that execute SQL run behind, beside the lock of the engine itself: landlock, seccomp or none',
    },
  ),
  details: t.Record(t.String(), t.String(), { description: 'Why a service is unhealthy' }),
})

type Build = Pick<Config, 'version' | 'gitCommit' | 'buildTime'>

/** Open to everybody: load balancers and monitors ask without credentials. */
export const healthRoutes = (health: HealthService, metrics: Metrics, build: Build) =>
  new Elysia({ strictPath: true, tags: ['health'] })
    .get('/health', { status: 'healthy' } as const, {
      response: { 200: Alive },
      detail: { summary: 'Whether the process runs' },
    })
    .get('/health/live', () => liveness(build), {
      response: { 200: Live },
      detail: { summary: 'Whether the process runs, and which build it is' },
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
          summary: 'Whether everything the service depends on answers',
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
      { response: { 200: t.String() }, detail: { summary: 'Metrics in the Prometheus text format' } },
    )

const liveness = ({ version, gitCommit, buildTime }: Build) => ({
  status: 'healthy' as const,
  version,
  go_version: runtime(),
  build_time: buildTime,
  git_commit: gitCommit,
})

/** The specification's field was named by another runtime. */
const runtime = () => {
  const { bun, deno, node }: Partial<Record<string, string>> = process.versions
  // The others claim to be a Node as well.
  return bun ? `bun${bun}` : deno ? `deno${deno}` : `node${node}`
}
