import { Type as t } from '@sinclair/typebox'
import {
  Instant,
  Layer,
  literals,
  NamespaceName,
  nullable,
  PipelineName,
  Uuid,
  ZoneName,
} from '../core/names.ts'
import { RunStatus } from '../runs/schema.ts'

const NodeId = t.String({
  pattern:
    '^((pipeline|table):[a-z0-9_-]{1,128}\\.(bronze|silver|gold)\\.[a-z0-9_-]{1,128}|landing:[a-z0-9_-]{1,128}\\.[a-z0-9_-]{1,128})$',
  examples: ['pipeline:default.silver.flights'],
  description: 'Only this node, and all nodes that are upstream or downstream of it',
})
export const LineageQuery = t.Object({ namespace: t.Optional(NamespaceName), node: t.Optional(NodeId) })
export type LineageQuery = typeof LineageQuery.static

const PipelineNode = t.Object(
  {
    id: t.String({ examples: ['pipeline:default.silver.flights'] }),
    type: t.Literal('pipeline'),
    namespace: NamespaceName,
    layer: Layer,
    name: PipelineName,
    latest_run: nullable(
      t.Object(
        {
          id: Uuid,
          status: RunStatus,
          started_at: nullable(Instant),
          duration_ms: nullable(t.Integer()),
        },
        { title: 'LatestRun' },
      ),
      { description: 'The run on main requested last, in any state' },
    ),
    quality: nullable(
      t.Object(
        { total: t.Integer(), passed: t.Integer(), failed: t.Integer(), warned: t.Integer() },
        { title: 'QualitySummary' },
      ),
      {
        description:
          'Quality test results of this run; null without results. `failed` counts failed tests of severity `error`, `warned` failed tests of severity `warn`',
      },
    ),
  },
  { title: 'PipelineNode' },
)

const TableNode = t.Object(
  {
    id: t.String({ examples: ['table:default.silver.flights'] }),
    type: t.Literal('table'),
    namespace: NamespaceName,
    layer: Layer,
    name: PipelineName,
    table_stats: nullable(
      t.Object({ row_count: t.Integer(), size_bytes: t.Integer() }, { title: 'TableStats' }),
      {
        description: 'Size of the table on main; null if main has no such table',
      },
    ),
  },
  { title: 'TableNode' },
)

const ZoneNode = t.Object(
  {
    id: t.String({ examples: ['landing:default.flights'] }),
    type: t.Literal('landing_zone'),
    namespace: NamespaceName,
    name: ZoneName,
    landing_info: t.Object({ file_count: t.Integer() }, { title: 'LandingInfo' }),
  },
  { title: 'LandingZoneNode' },
)

const Edge = t.Object(
  {
    source: t.String({
      description: 'Id of the node where the edge starts',
      examples: ['table:default.bronze.flights'],
    }),
    target: t.String({
      description: 'Id of the node where the edge ends',
      examples: ['pipeline:default.silver.flights'],
    }),
    type: literals(['ref', 'produces', 'landing_input'], { title: 'LineageEdgeType' }),
  },
  { title: 'LineageEdge' },
)

export const LineageGraph = t.Object(
  {
    nodes: t.Array(
      t.Union([PipelineNode, TableNode, ZoneNode], {
        title: 'LineageNode',
        discriminator: { propertyName: 'type' },
      }),
    ),
    edges: t.Array(Edge),
  },
  { title: 'LineageGraph' },
)
export type LineageGraph = typeof LineageGraph.static
export type PipelineNode = typeof PipelineNode.static
export type TableNode = typeof TableNode.static
export type ZoneNode = typeof ZoneNode.static
export type Edge = typeof Edge.static
