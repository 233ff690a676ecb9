import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { recheckAccess } from '../core/bound.ts'
import { limits } from '../core/limits.ts'
import { ErrorBody } from '../core/names.ts'
import { itemsOn, pageOf, setLink, WholeListQuery } from '../core/pagination.ts'
import { eventStream, lastEventId } from '../http/event-stream.ts'
import { streamClientOf, visibleTo } from '../http/exchange.ts'
import { eventsText } from '../wire/event-schema.ts'
import type { InspectorFeeds } from './feed.ts'
import {
  Definitions,
  DrawingQuery,
  ExportBody,
  ExportQuery,
  FollowQuery,
  HistoryQuery,
  InstanceBody,
  InstanceEvents,
  InstancePath,
  InstanceQuery,
  Instances,
  ListEvents,
  MACHINE_NAMES,
  MachinePath,
} from './schema.ts'
import type { InspectorService } from './service.ts'

const SVG = t.String({ contentMediaType: 'image/svg+xml' })

/** The data of the console's page `/inspector`. Unlike the page, these routes describe the installation, so they require credentials. */
export const inspectorRoutes = (inspector: InspectorService, feeds: InspectorFeeds) =>
  new Elysia({ prefix: '/inspector', tags: ['inspector'] })
    .use(machineRoutes(inspector))
    .use(drawingRoutes(inspector))
    .get(
      '/:machine/instances',
      async ({ params, query, request, set }) => {
        const { page, ...body } = await inspector.list(params.machine, query, await visibleTo(request))
        setLink(set, request.url, page, body.total)
        return body
      },
      {
        params: MachinePath,
        query: InstanceQuery,
        response: { 200: Instances, 400: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'listInstances',
          summary: 'List instances of a machine',
          description:
            'Live instances come first, then the newest. The answer includes the number of instances in each state.',
        },
      },
    )
    .get(
      '/:machine/events',
      async ({ params, request }) => {
        const isBlind = (await visibleTo(request)).pipelines !== 'all'
        return asText(eventStream(feeds.followList(params.machine, streamClientOf(request), isBlind)))
      },
      {
        params: MachinePath,
        response: { 200: eventsText(ListEvents), 404: ErrorBody, 429: ErrorBody },
        detail: {
          operationId: 'followInstances',
          summary: 'Follow the list of a machine',
          description:
            'Sends the event `changed`, at most once a second, when the list should be read again. Callers who see only some pipelines get the event every three seconds.',
        },
      },
    )
    .get(
      '/:machine/instances/:id',
      ({ params, query }) => inspector.instance(params.machine, params.id, query),
      {
        params: InstancePath,
        query: HistoryQuery,
        response: { 200: InstanceBody, 400: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'getInstance',
          summary: 'Get an instance',
          description:
            'Returns the state, the reasons for waiting, and the history with the time in each state.',
        },
      },
    )
    .get(
      '/:machine/instances/:id/events',
      async ({ params, query, headers, request }) => {
        // An unknown instance is 404 before a stream opens.
        await inspector.instance(params.machine, params.id, { limit: '1' })
        const position =
          query.after === undefined ? lastEventId(headers['last-event-id']) : Number(query.after)
        const client = streamClientOf(request)
        const recheck = () => recheckAccess(request)
        return asText(eventStream(feeds.follow(params.machine, params.id, position, client, recheck)))
      },
      {
        params: InstancePath,
        query: FollowQuery,
        response: { 200: eventsText(InstanceEvents), 400: ErrorBody, 404: ErrorBody, 429: ErrorBody },
        detail: {
          operationId: 'followInstance',
          summary: 'Follow an instance',
          description:
            'Sends the events `transition` (a step of the history; the event id is the id of the step) and `snapshot`. The stream ends after a final state. `Last-Event-ID` resumes a stream.',
        },
      },
    )
    .get(
      '/:machine/instances/:id/export.json',
      async ({ params, set }) => {
        set.headers['content-disposition'] = `attachment; filename="${params.machine}-${params.id}.json"`
        return inspector.exported(params.machine, params.id)
      },
      {
        params: InstancePath,
        response: { 200: ExportBody, 404: ErrorBody },
        detail: {
          operationId: 'exportInstance',
          summary: 'Export an instance as JSON',
          description: 'The export includes the statechart and the history.',
        },
      },
    )
    .get(
      '/:machine/instances/:id/export.svg',
      async ({ params, query }) =>
        drawing(
          await inspector.exportedDrawing(params.machine, params.id, query),
          `${params.machine}-${params.id}.svg`,
        ),
      {
        params: InstancePath,
        query: ExportQuery,
        response: { 200: SVG, 400: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'exportInstanceDrawing',
          summary: 'Export an instance as SVG',
          description: 'Returns the statechart with the state after a step highlighted.',
        },
      },
    )

const machineRoutes = (inspector: InspectorService) =>
  new Elysia().get(
    '/machines',
    ({ query, request, set }) => {
      const page = pageOf(query, limits.listCap)
      const { machines, total } = inspector.definitions()
      setLink(set, request.url, page, total)
      return { machines: itemsOn(page, machines), total }
    },
    {
      query: WholeListQuery,
      response: { 200: Definitions },
      detail: {
        operationId: 'listMachines',
        summary: 'Get the statecharts',
        description: 'Returns the states, transitions, guards and effects of each machine.',
      },
    },
  )

/** Each machine has its own path: `/machines/{drawing}` would also match `/{machine}/instances` in the OpenAPI document. */
const drawingRoutes = (inspector: InspectorService) => {
  const routes = new Elysia({ tags: ['inspector'] })
  for (const machine of MACHINE_NAMES)
    routes.get(
      `/machines/${machine}.svg`,
      async ({ query, request }) => drawing(await inspector.draw(machine, query, await visibleTo(request))),
      {
        query: DrawingQuery,
        response: { 200: SVG, 400: ErrorBody },
        detail: {
          operationId: `draw${machine[0]?.toUpperCase()}${machine.slice(1)}Machine`,
          summary: `Draw the statechart of a ${machine}`,
          description: 'Returns an SVG. Parameters highlight a state or a transition.',
        },
      },
    )
  return routes
}

/** The policy of a drawing allows its own styles, and nothing else. */
const drawing = (svg: string, filename?: string) =>
  new Response(svg, {
    headers: {
      'content-type': 'image/svg+xml; charset=utf-8',
      'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
      ...(filename === undefined ? {} : { 'content-disposition': `attachment; filename="${filename}"` }),
    },
  }) as unknown as string

/** The declared response is text; the framework forwards a Response unchanged. */
const asText = (response: Response) => response as unknown as string
