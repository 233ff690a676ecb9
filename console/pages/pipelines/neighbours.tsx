import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { reachable } from '../../../lake/pipeline/reach.ts'
import { type LineageGraph, type LineageNode, lineageQuery, titleOf } from '../../api/lineage.ts'
import type { Named } from '../../api/pipelines.ts'
import { counted } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Pill, Status } from '../../design/status.tsx'
import { Card, Empty, Notice } from '../../design/surfaces.tsx'

type Way = 'upstream' | 'downstream'

/** Up- and downstream of a pipeline: what it reads, what reads its table, and how these did last. */
export function Neighbours({ at }: { at: Named }) {
  const id = `pipeline:${at.ns}.${at.layer}.${at.name}`
  const query = useQuery(lineageQuery({ node: id }))
  return (
    <div className="stack">
      <Loaded query={query}>
        {(graph) => (
          <>
            <div className="neighbours">
              <Side graph={graph} id={id} way="upstream" />
              <Side graph={graph} id={id} way="downstream" />
            </div>
            {!graph.nodes.some((node) => node.id === id) && (
              <Notice>The graph shows the pipeline when its source can be read.</Notice>
            )}
            <p>
              <Link to="/lineage" search={{ node: id }}>
                Show the pipeline in the graph
              </Link>
            </p>
          </>
        )}
      </Loaded>
    </div>
  )
}

const TEXTS = {
  upstream: { title: 'Upstream', none: 'It reads no table and no landing zone' },
  downstream: { title: 'Downstream', none: 'No pipeline reads its table' },
}

/** Sorted: the nearest first. The own table is left out, because the page is about it. */
function Side({ graph, id, way }: { graph: LineageGraph; id: string; way: Way }) {
  const own = `table:${id.slice('pipeline:'.length)}`
  const reached = reachable(id, graph.edges, way)
  const nodes = graph.nodes.filter((node) => reached.has(node.id) && node.id !== id && node.id !== own)
  const direct = new Set(
    graph.edges.flatMap(({ source, target }) =>
      way === 'upstream' ? (target === id ? source : []) : source === own ? target : [],
    ),
  )
  const pipelines = nodes.filter(({ type }) => type === 'pipeline')
  const { title, none } = TEXTS[way]
  return (
    <Card title={`${title} (${counted(pipelines.length, 'pipeline')})`}>
      {nodes.length === 0 ? (
        <Empty icon="lineage" title={none} />
      ) : (
        <ul aria-label={title}>
          {nodes
            .toSorted((a, b) => Number(direct.has(b.id)) - Number(direct.has(a.id)))
            .slice(0, NODES_SHOWN)
            .map((node) => (
              <li key={node.id}>
                <Neighbour node={node} />
                {direct.has(node.id) && <Pill tone="idle">direct</Pill>}
              </li>
            ))}
        </ul>
      )}
      {nodes.length > NODES_SHOWN && <p className="muted">and {nodes.length - NODES_SHOWN} more</p>}
    </Card>
  )
}

const NODES_SHOWN = 100

function Neighbour({ node }: { node: LineageNode }) {
  const { namespace: ns, name } = node
  if (node.type === 'landing_zone')
    return (
      <>
        <span className="muted">landing zone</span>
        <Link to="/landing-zones/$ns/$name" params={{ ns, name }}>
          {titleOf(node)}
        </Link>
      </>
    )
  const params = { ns, layer: node.layer, name }
  if (node.type === 'table')
    return (
      <>
        <span className="muted">table</span>
        <Link to="/lake/$ns/$layer/$name" params={params}>
          {titleOf(node)}
        </Link>
      </>
    )
  return (
    <>
      <span className="muted">pipeline</span>
      <Link to="/pipelines/$ns/$layer/$name" params={params}>
        {titleOf(node)}
      </Link>
      {node.latest_run && <Status status={node.latest_run.status} />}
      {node.quality !== null && node.quality.failed + node.quality.warned > 0 && (
        <Pill tone={node.quality.failed > 0 ? 'bad' : 'warn'}>tests fail</Pill>
      )}
    </>
  )
}
