// One table of access rules for all API routes: the resource of a request, and the right that it needs. The server checks the
// rule before the handler runs. The server does not start when a route has no rule. See docs/adr/0024-central-rules.md.

import {
  ADMINS,
  AUTHENTICATED,
  changesOwner,
  checkedByRoute,
  createsBranch,
  createsNamespace,
  createsPipeline,
  createsZone,
  file,
  instance,
  namespace,
  PREVIEW_PERMISSION,
  partOfPipeline,
  pipeline,
  pipelineOfBody,
  type Rule,
  readsSamples,
  readsSources,
  requireAdmin,
  table,
  VISIBLE_ONLY,
  zone,
} from './rule.ts'

const COUNTS_FOR_ADMINS: Rule = {
  summary: 'any authenticated caller; with counts, administrators',
  check: ({ query, access }) => {
    if (query.counts === '1') requireAdmin(access)
  },
}

const P = '/api/v1/pipelines/:ns/:layer/:name'
const Z = '/api/v1/landing-zones/:ns/:name'
const T = '/api/v1/tables/:ns/:layer/:name'
const I = '/api/v1/inspector/:machine'
const V = '/iceberg/v1'
const N = `${V}/:prefix/namespaces`

/** Bodies of Iceberg name tables, and only the catalog reads these bodies. */
const BY_CATALOG = checkedByRoute(
  'write on the pipeline of the table, or on the namespace of a table without a pipeline',
)

/** S3 requests carry credentials for one table; the rest of its lake does not exist for them. */
const BY_CREDENTIALS = checkedByRoute(
  'the grant of the credentials; their caller must still have the right on the table',
)

/** The key is method and pattern. */
export const RULES: Readonly<Record<string, Rule>> = {
  'GET /api/v1/features': AUTHENTICATED,
  'GET /api/v1/audit': ADMINS,

  'GET /api/v1/namespaces': VISIBLE_ONLY,
  'POST /api/v1/namespaces': createsNamespace,
  'GET /api/v1/namespaces/:name': checkedByRoute('read on the namespace'),
  'PUT /api/v1/namespaces/:name': namespace('write'),
  'DELETE /api/v1/namespaces/:name': namespace('admin'),

  'GET /api/v1/pipelines': VISIBLE_ONLY,
  'POST /api/v1/pipelines': createsPipeline,
  [`GET ${P}`]: pipeline('read'),
  [`PUT ${P}`]: pipeline('write', changesOwner),
  [`DELETE ${P}`]: pipeline('admin'),
  [`POST ${P}/publish`]: pipeline('write'),
  [`GET ${P}/versions`]: pipeline('read'),
  [`GET ${P}/versions/:number`]: pipeline('read'),
  [`POST ${P}/rollback`]: pipeline('write'),
  [`POST ${P}/preview`]: pipeline(PREVIEW_PERMISSION, readsSamples),
  [`GET ${P}/tests`]: pipeline('read'),
  [`POST ${P}/tests`]: pipeline('write'),
  [`DELETE ${P}/tests/:testName`]: pipeline('write'),
  [`POST ${P}/tests/run`]: pipeline('write'),
  [`GET ${P}/triggers`]: pipeline('read'),
  [`POST ${P}/triggers`]: pipeline('write', readsSources),
  [`GET ${P}/triggers/:id`]: pipeline('read'),
  [`PUT ${P}/triggers/:id`]: pipeline('write', readsSources),
  [`DELETE ${P}/triggers/:id`]: pipeline('write'),
  [`GET ${P}/retention`]: pipeline('read'),
  [`PUT ${P}/retention`]: pipeline('write'),

  'GET /api/v1/branches': AUTHENTICATED,
  'POST /api/v1/branches': createsBranch,
  'GET /api/v1/branches/:branch': AUTHENTICATED,
  'DELETE /api/v1/branches/:branch': checkedByRoute('the creator of the branch, and administrators'),
  'POST /api/v1/branches/:branch/merge': checkedByRoute(
    'write on the pipeline of every changed table, or on the namespace of a table without one',
  ),
  'POST /api/v1/branches/:branch/rebase': checkedByRoute('the creator of the branch, and administrators'),
  'GET /api/v1/branches/:branch/commits': VISIBLE_ONLY,
  'GET /api/v1/branches/:branch/diff': VISIBLE_ONLY,
  'GET /api/v1/branches/:branch/diff/:ns/:layer/:name': table('read'),
  'GET /api/v1/tags': AUTHENTICATED,
  'POST /api/v1/tags': createsBranch,
  'DELETE /api/v1/tags/:name': checkedByRoute('the creator of the tag, and administrators'),

  'GET /api/v1/commits': VISIBLE_ONLY,
  [`GET ${T}/history`]: table('read'),
  [`POST ${T}/restore`]: table('write'),

  'GET /api/v1/runs': VISIBLE_ONLY,
  'POST /api/v1/runs': pipelineOfBody,
  'GET /api/v1/runs/:id': partOfPipeline('read', 'run'),
  'POST /api/v1/runs/:id/cancel': partOfPipeline('write', 'run'),
  'POST /api/v1/runs/:id/approve': partOfPipeline('write', 'run'),
  'POST /api/v1/runs/:id/reject': partOfPipeline('write', 'run'),
  'GET /api/v1/runs/:id/logs': partOfPipeline('read', 'run'),
  'GET /api/v1/runs/:id/tests': partOfPipeline('read', 'run'),
  'GET /api/v1/runs/:id/inputs': partOfPipeline('read', 'run'),
  'GET /api/v1/runs/:id/diff': partOfPipeline('read', 'run'),
  'GET /api/v1/runs/:id/diff/rows': partOfPipeline('read', 'run'),

  'GET /api/v1/schedules': VISIBLE_ONLY,
  'POST /api/v1/schedules': pipelineOfBody,
  'GET /api/v1/schedules/:id': partOfPipeline('read', 'schedule'),
  'PUT /api/v1/schedules/:id': partOfPipeline('write', 'schedule'),
  'DELETE /api/v1/schedules/:id': partOfPipeline('write', 'schedule'),

  'GET /api/v1/landing-zones': VISIBLE_ONLY,
  'POST /api/v1/landing-zones': createsZone,
  [`GET ${Z}`]: zone('read'),
  [`PUT ${Z}`]: zone('write', changesOwner),
  [`DELETE ${Z}`]: zone('admin'),
  [`GET ${Z}/files`]: zone('read'),
  [`POST ${Z}/files`]: zone('write'),
  [`GET ${Z}/files/:id`]: zone('read'),
  [`GET ${Z}/files/:id/content`]: zone('read'),
  [`POST ${Z}/files/:id/quarantine`]: zone('write'),
  [`DELETE ${Z}/files/:id/quarantine`]: zone('write'),
  [`DELETE ${Z}/files/:id`]: zone('write'),
  [`GET ${Z}/samples`]: zone('read'),
  [`POST ${Z}/samples`]: zone('write'),
  [`DELETE ${Z}/samples/:filename`]: zone('write'),
  [`GET ${Z}/reads`]: zone('read'),
  [`GET ${Z}/schema`]: zone('read'),
  [`GET ${Z}/lifecycle`]: zone('read'),
  [`PUT ${Z}/lifecycle`]: zone('write'),

  'GET /api/v1/files': VISIBLE_ONLY,
  'POST /api/v1/files/upload': checkedByRoute(
    'write on the pipeline, landing zone or namespace of the file, checked when its path has arrived',
  ),
  'GET /api/v1/files/*': file('read'),
  'PUT /api/v1/files/*': file('write'),
  'DELETE /api/v1/files/*': file('write'),

  'POST /api/v1/query': VISIBLE_ONLY,
  'GET /api/v1/schema': VISIBLE_ONLY,
  'GET /api/v1/tables': VISIBLE_ONLY,
  [`GET ${T}`]: table('read'),
  [`GET ${T}/preview`]: table('read'),
  [`GET ${T}/files`]: table('read'),
  [`GET ${T}/statistics`]: table('read'),
  [`PUT ${T}/metadata`]: table('write'),
  'GET /api/v1/lineage': VISIBLE_ONLY,
  'GET /api/v1/attention': VISIBLE_ONLY,

  [`GET ${V}/config`]: AUTHENTICATED,
  [`GET ${N}`]: VISIBLE_ONLY,
  [`POST ${N}`]: checkedByRoute(createsNamespace.summary),
  [`GET ${N}/:namespace`]: VISIBLE_ONLY,
  [`DELETE ${N}/:namespace`]: checkedByRoute('admin on the namespace'),
  [`POST ${N}/:namespace/properties`]: checkedByRoute('write on the namespace'),
  [`GET ${N}/:namespace/tables`]: VISIBLE_ONLY,
  [`POST ${N}/:namespace/tables`]: BY_CATALOG,
  [`GET ${N}/:namespace/tables/:table`]: VISIBLE_ONLY,
  [`POST ${N}/:namespace/tables/:table`]: BY_CATALOG,
  [`GET ${N}/:namespace/views`]: VISIBLE_ONLY,
  [`POST ${N}/:namespace/views`]: BY_CATALOG,
  [`GET ${N}/:namespace/views/:view`]: VISIBLE_ONLY,
  [`POST ${N}/:namespace/views/:view`]: BY_CATALOG,
  [`POST ${V}/:prefix/views/rename`]: BY_CATALOG,
  [`POST ${V}/:prefix/transactions/commit`]: BY_CATALOG,
  [`DELETE ${N}/:namespace/tables/:table`]: BY_CATALOG,
  [`DELETE ${N}/:namespace/views/:view`]: BY_CATALOG,
  [`POST ${V}/:prefix/tables/rename`]: BY_CATALOG,
  [`POST ${N}/:namespace/register`]: BY_CATALOG,
  [`POST ${N}/:namespace/tables/:table/metrics`]: checkedByRoute('read on the table; nothing is stored'),

  [`GET ${N}/:namespace/tables/:table/credentials`]: VISIBLE_ONLY,
  'GET /s3/:bucket': BY_CREDENTIALS,
  'GET /s3/:bucket/*': BY_CREDENTIALS,
  'PUT /s3/:bucket/*': BY_CREDENTIALS,
  'POST /s3/:bucket': BY_CREDENTIALS,
  'POST /s3/:bucket/*': BY_CREDENTIALS,
  'DELETE /s3/:bucket/*': BY_CREDENTIALS,

  'GET /api/v1/inspector/machines': AUTHENTICATED,
  'GET /api/v1/inspector/machines/run.svg': COUNTS_FOR_ADMINS,
  'GET /api/v1/inspector/machines/draft.svg': COUNTS_FOR_ADMINS,
  'GET /api/v1/inspector/machines/trigger.svg': COUNTS_FOR_ADMINS,
  [`GET ${I}/instances`]: VISIBLE_ONLY,
  [`GET ${I}/events`]: VISIBLE_ONLY,
  [`GET ${I}/instances/:id`]: instance,
  [`GET ${I}/instances/:id/events`]: instance,
  [`GET ${I}/instances/:id/export.json`]: instance,
  [`GET ${I}/instances/:id/export.svg`]: instance,

  'GET /api/v1/admin/replicas': ADMINS,
  'GET /api/v1/admin/retention/config': ADMINS,
  'PUT /api/v1/admin/retention/config': ADMINS,
  'GET /api/v1/admin/retention/status': ADMINS,
  'POST /api/v1/admin/retention/run': ADMINS,

  'POST /api/v1/sharing': checkedByRoute('admin on the resource'),
  'GET /api/v1/sharing': checkedByRoute('any authenticated caller; without admin, only their own grants'),
  'DELETE /api/v1/sharing/:id': checkedByRoute(
    'the creator of the grant, the owner of the resource, and administrators',
  ),
  'POST /api/v1/sharing/transfer': checkedByRoute('the owner of the resource, and administrators'),
}
