import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect, useMemo } from 'react'
import { reachable } from '../../../lake/pipeline/reach.ts'
import {
  type LineageGraph,
  type LineageNode,
  layoutQuery,
  lineageQuery,
  lineageSizeQuery,
  type Part,
  titleOf,
} from '../../api/lineage.ts'
import { Button, SearchField, Segments, Select } from '../../design/controls.tsx'
import { bytes, count, counted } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Status } from '../../design/status.tsx'
import { Card, Empty, Facts, Page } from '../../design/surfaces.tsx'
import { type FiltersOf, useFilters } from '../../shell/filters.ts'
import { Graph } from './graph.tsx'
import { fingerprintOf, layoutOf } from './layout.ts'
import { type ColourBy, LEGEND, stateOf } from './state.ts'

type Filters = FiltersOf<'/lineage'>

/** With more pipelines than this, the page shows the graph of one namespace. */
const PIPELINES_AT_ONCE = 2_000
/** Nodes in the list beside the drawing. The search finds the others. */
const LISTED = 100
/** The graph of all namespaces, in the address. No namespace has this name. */
const ALL = '*'
/** The choice of what is around a node, which is in the address. */
const AROUND = ' around'
const WHOLE = { namespace: ALL, node: '', focus: '', around: '' }
const nameIn = (id: string) => id.slice(id.indexOf(':') + 1)

/** How data flows: landing zones, pipelines and tables. */
export default function Lineage() {
  const { part, names } = useScope()
  const query = useQuery({
    ...lineageQuery(part ?? {}),
    enabled: part !== null,
    // A comparison of thousands of nodes takes longer than a drawing.
    structuralSharing: false,
    placeholderData: keepPreviousData,
  })
  return (
    <Page title="Lineage" subtitle="How data flows from files to tables." isWide>
      <Loaded query={query}>
        {(graph) =>
          graph.nodes.length === 0 && isWhole(part) ? (
            <Card>
              <Empty icon="lineage" title="No pipeline yet">
                The graph grows with each pipeline that reads a landing zone or a table.
              </Empty>
            </Card>
          ) : (
            <LineageView graph={graph} names={names} />
          )
        }
      </Loaded>
    </Page>
  )
}

const isWhole = (part: Part | null) => part !== null && Object.keys(part).length === 0

/** Such a node may exist. */
const NODE_ID =
  /^(?:(?:pipeline|table):[a-z0-9_-]{1,128}\.(?:bronze|silver|gold)|landing:[a-z0-9_-]{1,128})\.[a-z0-9_-]{1,128}$/

/**
 * The part of the graph that is shown (null: not known yet), and the names of all namespaces. A focus shows the whole way from or
 * to its node. With many pipelines, an address without a namespace gets what is around its node, or the first namespace.
 */
function useScope(): { part: Part | null; names: readonly string[] } {
  const [filters, change] = useFilters('/lineage')
  const { namespace = '', node = '', search = '', focus = '', around = '' } = filters
  const query = useQuery(lineageSizeQuery())
  const { pipelines = 0, names = [] } = query.data ?? {}
  const [first] = names
  const isLarge = pipelines > PIPELINES_AT_ONCE
  const isOpen = isLarge && namespace === '' && around === '' && search === ''
  const part: Filters = NODE_ID.test(node) ? { around: node } : { namespace: first ?? '' }
  useEffect(() => {
    if (isOpen) change(part)
  }, [isOpen, first, node, change])
  return { part: partOf(), names }

  function partOf(): Part | null {
    if (NODE_ID.test(node) && focus !== '') return { node }
    if (NODE_ID.test(around)) return { node: around }
    if (namespace !== '') return namespace === ALL ? {} : { namespace }
    return query.isPending || isOpen ? null : {}
  }
}

function LineageView({ graph, names }: { graph: LineageGraph; names: readonly string[] }) {
  const [filters, change] = useFilters('/lineage')
  const { search = '', node: chosenId = '', focus = 'all', around = '' } = filters
  const colour: ColourBy = filters.colour === 'tests' ? 'tests' : 'run'
  const chosen = graph.nodes.find(({ id }) => id === chosenId)
  const shown = useMemo(() => {
    // An address may name a node that is not there.
    if (chosen === undefined || focus === 'all') return graph
    const kept = reachable(chosenId, graph.edges, focus === 'upstream' ? 'upstream' : 'downstream')
    return {
      nodes: graph.nodes.filter(({ id }) => kept.has(id)),
      edges: graph.edges.filter(({ source, target }) => kept.has(source) && kept.has(target)),
    }
  }, [graph, chosenId, focus])
  const ids = useMemo(() => shown.nodes.map(({ id }) => id), [shown])
  const fingerprint = useMemo(() => fingerprintOf(ids, shown.edges), [ids, shown])
  const places = useQuery(layoutQuery(fingerprint, () => layoutOf(ids, shown.edges)))
  const matches = useMemo(
    () => shown.nodes.filter((node) => titleOf(node).includes(search.toLowerCase())),
    [shown, search],
  )
  const found = useMemo(() => new Set(search === '' ? [] : matches.map(({ id }) => id)), [matches, search])
  return (
    <div className="lineage">
      <Card
        isFlush
        actions={
          <>
            <SearchField
              label="Search nodes"
              value={search}
              onChange={(value) => change({ search: value })}
            />
            <Select
              label="Namespace"
              isLabelShown={false}
              value={around === '' ? filters.namespace || ALL : AROUND}
              choices={[
                ...(around === '' ? [] : [{ value: AROUND, label: `Around ${nameIn(around)}` }]),
                { value: ALL, label: 'All namespaces' },
                ...names.map((name) => ({ value: name, label: name })),
              ]}
              onChange={(value) => change({ namespace: value, node: '', focus: '', around: '' })}
            />
            <Segments
              label="Colours"
              value={colour}
              choices={[
                { value: 'run', label: 'Last run' },
                { value: 'tests', label: 'Tests' },
              ]}
              onChange={(value) => change({ colour: value })}
            />
            <span className="muted" role="status">
              {counted(shown.nodes.length, 'node')}
              {search !== '' && `, ${count(matches.length)} found`}
            </span>
          </>
        }
      >
        {shown.nodes.length === 0 ? (
          <Empty
            icon="lineage"
            title="No node here"
            actions={<Button onClick={() => change(WHOLE)}>Show all namespaces</Button>}
          >
            No pipeline, table or landing zone is here.
          </Empty>
        ) : (
          <Loaded query={places} lines={10}>
            {(layout) => (
              <Graph
                graph={shown}
                places={layout}
                chosen={chosenId}
                found={found}
                colour={colour}
                onChoose={(id) => change({ node: id })}
              />
            )}
          </Loaded>
        )}
        <Legend colour={colour} />
      </Card>
      <div className="stack">
        {chosen && (
          <Details
            node={chosen}
            focus={focus}
            onFocus={(value) => change(value === 'all' ? wholeOf(chosen, filters) : { focus: value })}
          />
        )}
        <Nodes nodes={matches} chosenId={chosenId} colour={colour} onChoose={(id) => change({ node: id })} />
      </div>
    </div>
  )
}

/** The graph after a focus. A focus may lead to a node of another namespace, whose graph is shown then. */
const wholeOf = ({ namespace }: LineageNode, { namespace: before = '' }: Filters): Filters =>
  before === '' || before === ALL ? { focus: '' } : { focus: '', namespace }

function Legend({ colour }: { colour: ColourBy }) {
  return (
    <ul className="graph-legend" aria-label="Colours">
      {LEGEND[colour].map((state) => (
        <li key={state.text}>
          <span style={{ background: `var(${state.colour})` }} />
          {state.text}
        </li>
      ))}
    </ul>
  )
}

/** The nodes of the drawing as a list: the same choices for the keyboard and for screen readers. */
function Nodes({
  nodes,
  chosenId,
  colour,
  onChoose,
}: {
  nodes: readonly LineageNode[]
  chosenId: string
  colour: ColourBy
  onChoose: (id: string) => void
}) {
  return (
    <Card title="Nodes" isFlush>
      <ul className="nodes" aria-label="Nodes">
        {nodes.slice(0, LISTED).map((node) => (
          <li key={node.id}>
            <Button
              kind="quiet"
              size="small"
              aria-pressed={node.id === chosenId}
              onClick={() => onChoose(node.id)}
            >
              <span className="ellipsis">{titleOf(node)}</span>
              <small className="muted">{stateOf(node, colour)?.text ?? node.type.replace('_', ' ')}</small>
            </Button>
          </li>
        ))}
      </ul>
      {nodes.length > LISTED && (
        <p className="card-body muted">and {count(nodes.length - LISTED)} more: search for them</p>
      )}
    </Card>
  )
}

const FOCUSES = [
  { value: 'all', label: 'All' },
  { value: 'upstream', label: 'Upstream' },
  { value: 'downstream', label: 'Downstream' },
] as const

function Details({
  node,
  focus,
  onFocus,
}: {
  node: LineageNode
  focus: string
  onFocus: (focus: string) => void
}) {
  return (
    <Card title={titleOf(node)}>
      <div className="stack">
        <Segments
          label="Focus"
          value={FOCUSES.find(({ value }) => value === focus)?.value ?? 'all'}
          choices={FOCUSES}
          onChange={onFocus}
        />
        <NodeFacts node={node} />
      </div>
    </Card>
  )
}

function NodeFacts({ node }: { node: LineageNode }) {
  const { namespace: ns, name } = node
  if (node.type === 'landing_zone')
    return (
      <Facts
        facts={[
          ['Files', count(node.landing_info.file_count)],
          [
            'Open',
            <Link key="zone" to="/landing-zones/$ns/$name" params={{ ns, name }}>
              Landing zone
            </Link>,
          ],
        ]}
      />
    )
  const at = { ns, layer: node.layer, name }
  if (node.type === 'table')
    return (
      <Facts
        facts={[
          ['Rows', node.table_stats === null ? 'no table on main' : count(node.table_stats.row_count)],
          ['Size', node.table_stats === null ? '–' : bytes(node.table_stats.size_bytes)],
          [
            'Open',
            <Link key="table" to="/lake/$ns/$layer/$name" params={at}>
              Table
            </Link>,
          ],
        ]}
      />
    )
  const { latest_run: run, quality } = node
  return (
    <Facts
      facts={[
        [
          'Last run',
          run === null ? (
            'never'
          ) : (
            <Link key="run" to="/runs/$id" params={{ id: run.id }}>
              <Status status={run.status} />
            </Link>
          ),
        ],
        ['Tests', quality === null ? 'no result' : `${quality.passed} of ${quality.total} passed`],
        [
          'Open',
          <Link key="pipeline" to="/pipelines/$ns/$layer/$name" params={at}>
            Pipeline
          </Link>,
        ],
      ]}
    />
  )
}
