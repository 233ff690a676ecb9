import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect'
import { CatalogError } from '../../../lake/iceberg/read/client.ts'
import { tableKey } from '../../../lake/pipeline/names.ts'
import { TemplateError } from '../../../lake/pipeline/template.ts'
import type { PreviewPipelineRequest, QueryService } from '../../../proto/gen/sluice/query/v1/query_pb.ts'
import { EngineEnded, onceMoreIfKilled } from '../../engine/engine-process.ts'
import type { Log } from '../../log.ts'
import { type ApiAddresses, authorityOf } from '../../rpc/api-addresses.ts'
import { HttpFailure } from '../../rpc/http.ts'
import { AttemptFailure } from '../attempt/attempts.ts'
import { Inputs } from '../attempt/inputs.ts'
import { openInstance, tableExpression, viewOf } from '../attempt/lake-session.ts'
import { OtherFiles } from '../attempt/landing.ts'
import { openWorkplace, type Workplace, type WorkplaceOptions } from '../attempt/workplace.ts'
import { explained, findIn, type RefusedText } from '../author/slips.ts'
import { counted, type Rendered, reasonOf, since } from '../author/wording.ts'
import { EngineFault } from '../engine/engine-messages.ts'
import { EnginesBusy, makeTurns } from '../engine/engine-pool.ts'
import { limits } from '../limits.ts'
import { InterpreterEnded } from '../python/interpreter.ts'
import { NoPython } from '../python/interpreters.ts'
import { previewPython } from '../python/preview.ts'
import { watermarkOf } from '../write/watermark.ts'
import { callsOf } from './kept-calls.ts'
import {
  accessOf,
  type PreviewAnswer,
  PreviewFailure,
  PreviewReport,
  previewedTable,
  sourcesOf,
  type WriteTarget,
} from './preview-report.ts'
import { makePreviewRooms, type PreviewRoom, type PreviewRooms } from './preview-rooms.ts'

// A dry run of a draft: rendered and executed as a run would, on main and through a token that only reads. Nothing is
// written, so the query is executed once and only its first rows are kept.

export type PreviewPipeline = ReturnType<typeof makePreview>

/** Makes the function that previews pipelines. It throws ConnectError, as proto/sluice/query/v1/query.proto says. */
export function makePreview(options: WorkplaceOptions & { log: Log }) {
  const rooms = makePreviewRooms(options.log)
  // Of their own: a loop in Python without an end is not to keep people from looking at their SQL.
  const turns = { sql: makeTurns(limits.previewsAtOnce), python: makeTurns(limits.pythonPreviewsAtOnce) }

  return async function previewPipeline(
    request: PreviewPipelineRequest,
    caller: AbortSignal,
  ): Promise<PreviewAnswer> {
    const { type } = request
    if (type !== 'sql' && type !== 'python')
      throw new ConnectError(`type '${type}' is neither sql nor python`, Code.InvalidArgument)
    await enter(turns[type], caller)
    const late = AbortSignal.timeout(limits.previewMs)
    try {
      const signal = AbortSignal.any([caller, late])
      return await onceMoreIfKilled(() => inPlace({ ...options, rooms }, request, signal), signal)
    } catch (error) {
      if (error instanceof EngineEnded)
        throw new ConnectError(
          `the engine was killed from outside twice while it ran this preview (${error.why}): try again`,
          Code.ResourceExhausted,
        )
      if (error instanceof EnginesBusy) throw new ConnectError(error.message, Code.Unavailable)
      if (late.aborted)
        throw new ConnectError(
          `the preview was stopped at its time limit of ${limits.previewMs / 1_000} s`,
          Code.DeadlineExceeded,
        )
      throw error
    } finally {
      turns[type].leave()
    }
  }
}

/** Waits for its turn. */
async function enter(turns: ReturnType<typeof makeTurns>, caller: AbortSignal): Promise<void> {
  const late = AbortSignal.timeout(limits.previewWaitMs)
  try {
    await turns.enter(AbortSignal.any([caller, late]))
  } catch (error) {
    if (!late.aborted && !(error instanceof EnginesBusy)) throw error
    const message = `other previews have kept the runner busy for ${limits.previewWaitMs / 1_000} s: try again`
    throw new ConnectError(error instanceof EnginesBusy ? error.message : message, Code.ResourceExhausted)
  }
}

type Means = WorkplaceOptions & { rooms: PreviewRooms }

async function inPlace(
  means: Means,
  request: PreviewPipelineRequest,
  signal: AbortSignal,
): Promise<PreviewAnswer> {
  const needsPython = request.type === 'python'
  const known = needsPython ? null : await means.rooms.take(keyOf(request), signal)
  const again = known && (await inRoom(known, means, request, signal))
  if (again !== null) return again
  const place = await openWorkplace(means, accessOf(request), signal, { needsPython }).catch(
    (error: unknown) => {
      signal.throwIfAborted()
      const isAboutPython = error instanceof NoPython || error instanceof InterpreterEnded
      throw isAboutPython ? new ConnectError(`python: ${error.message}`, Code.FailedPrecondition) : error
    },
  )
  const preview = new Preview(request, place, signal)
  let isKept = false
  try {
    if (place.python !== null)
      return await previewPython(request, place, place.python, means.pythonLimits, signal)
    const answer = await preview.go()
    const { room, calls } = preview.kept()
    isKept = room !== null
    if (room !== null) means.rooms.put(keyOf(request), room, calls)
    return answer
  } catch (error) {
    signal.throwIfAborted()
    throw refusalOf(error, preview.rendered, place.directory)
  } finally {
    if (!isKept) await place.clear()
  }
}

/** A room is of one pipeline in one catalog. */
const keyOf = (request: PreviewPipelineRequest) =>
  `${tableKey(previewedTable(request))} ${authorityOf(accessOf(request))}`

/** A preview where the one before was. Null: it has to be somewhere else. */
async function inRoom(
  room: PreviewRoom,
  { rooms, openLake }: Means,
  request: PreviewPipelineRequest,
  signal: AbortSignal,
): Promise<PreviewAnswer | null> {
  const lake = openLake(accessOf(request), signal)
  const preview = new Preview(request, { ...room.place, lake }, signal, room)
  let isFit = false
  try {
    const answer = await preview.go()
    isFit = true
    return answer
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof OtherFiles || error instanceof OtherInputs || error instanceof EngineEnded)
      return null
    const isOfText = error instanceof TemplateError || error instanceof PreviewFailure
    isFit = isOfText || (error instanceof EngineFault && !error.hasSpoilt)
    throw refusalOf(error, preview.rendered, room.place.directory)
  } finally {
    lake.close()
    if (isFit) rooms.put(keyOf(request), room, preview.kept().calls)
    else void rooms.clear(room)
  }
}

/** A draft reads other tables or zones than those of its room. */
class OtherInputs extends Error {}

function refusalOf(error: unknown, rendered: Rendered | undefined, directory: string): unknown {
  if (error instanceof ConnectError || error instanceof EnginesBusy) return error
  // Tried once more, by the caller.
  if (error instanceof EngineEnded && error.end === 'killed') return error
  const isOfAuthor = error instanceof PreviewFailure || error instanceof AttemptFailure
  const reason = isOfAuthor ? error.message : reasonOf(error, rendered)
  if (reason === null) return error
  const isElsewhere =
    error instanceof CatalogError ||
    error instanceof HttpFailure ||
    (error instanceof Error && error.name === 'TimeoutError')
  return new ConnectError(
    reason.replaceAll(`${directory}/`, ''),
    isElsewhere ? Code.Unavailable : Code.FailedPrecondition,
  )
}

class Preview {
  /** Set while what the engine says is about the pipeline's SQL. */
  rendered: Rendered | undefined
  readonly #request: PreviewPipelineRequest
  readonly #place: Workplace
  readonly #signal: AbortSignal
  readonly #report: PreviewReport
  /** Whose place it is; null: this is the first one. */
  readonly #room: PreviewRoom | null
  #made: PreviewRoom | null = null
  #calls: string[] = []

  constructor(
    request: PreviewPipelineRequest,
    place: Workplace,
    signal: AbortSignal,
    room: PreviewRoom | null = null,
  ) {
    this.#request = request
    this.#place = place
    this.#signal = signal
    this.#report = new PreviewReport(request)
    this.#room = room
  }

  /** Where the next preview of this pipeline can be, if that would save it anything, and the calls whose rows it wants. */
  kept(): { room: PreviewRoom | null; calls: readonly string[] } {
    return { room: this.#made, calls: this.#calls }
  }

  async go(): Promise<PreviewAnswer> {
    const prepared = await this.#render()
    const { rendered, target } = prepared
    const outcome = await this.#execute(prepared)
    this.#report.unwritable({ ...(await target), sql: rendered.sql }, outcome.columns)
    return this.#report.answer(outcome, this.#place.directory)
  }

  /** Everything up to SQL that can run: configuration, template, and what the template asks for. */
  async #render(): Promise<Prepared> {
    const { lake, landing } = this.#place
    const started = performance.now()
    const sources = sourcesOf(this.#request, 'pipeline.sql')
    const { source } = sources
    const config = this.#report.configure(sources)
    const own = previewedTable(this.#request)
    const asksWatermark = /\bwatermark_value\b/.test(source.text)
    const readsOwn = asksWatermark || /\bthis\b/.test(source.text)
    const runStartedAt = new Date().toISOString()
    // Of a table that is replaced as a whole only those that read it have to know.
    const isNeeded = readsOwn || config.mergeStrategy !== 'full_refresh'
    const loaded = isNeeded ? lake.catalog.load(own) : Promise.resolve(null)
    const target = loaded.then((table) => ({ name: own, table, rules: config, at: runStartedAt }))
    // Whoever awaits it learns of it.
    target.catch(() => {})
    const table = readsOwn ? await loaded : null
    const watermark = asksWatermark
      ? await watermarkOf({ name: own, table, column: config.watermarkColumn }, this.#place, this.#signal)
      : null
    if (watermark?.warning) this.#report.warn(watermark.warning)
    const inputs = new Inputs({
      namespace: own.namespace,
      variables: {
        strategy: config.mergeStrategy,
        this: tableExpression(own),
        runStartedAt,
        watermarkValue: watermark?.value ?? null,
      },
      landing,
    })
    const template = { file: source.path, source: source.text }
    const draft = inputs.draft(template)
    await Promise.all([
      inputs.openTables(
        [...draft.tables, ...(readsOwn ? [own] : [])],
        lake,
        new Map([[tableKey(own), table]]),
      ),
      inputs.openLandings(draft.zones, {
        namespace: own.namespace,
        frozen: this.#request.samples,
        access: accessOf(this.#request),
        gateway: lake.gateway,
        present: this.#room?.landings,
      }),
    ])
    this.#report.reads(inputs, draft)
    this.#report.unread(inputs)
    const sql = inputs.sqlOf(draft)
    this.#report.ended('template_render', performance.now() - started, {
      file: source.path,
      characters: sql.length,
      tables: draft.tables.map(tableKey),
      landing_zones: draft.zones,
    })
    this.#report.say('info', `rendered ${source.path} in ${since(started)}`)
    return {
      rendered: { ...template, sql },
      inputs,
      target,
      zones: draft.zones,
      text: () => inputs.textOf(draft, own),
    }
  }

  async #execute({ rendered, inputs, zones, text }: Prepared) {
    const { directory, engine, landing, lake } = this.#place
    const started = performance.now()
    const profilePath = join(directory, 'profile.json')
    const found = inputs.found()
    const tables = JSON.stringify(found.map(viewOf))
    // Whoever asks may see all that is in the room: his own token has just found the same, and nothing less.
    if (this.#room !== null && (this.#room.tables !== tables || this.#room.landings.size !== zones.length))
      throw new OtherInputs()
    const instance =
      this.#room?.instance ??
      (await openInstance(engine, found, directory, this.#signal, { profilePath, landing }))
    this.rendered = rendered
    const outcome = await engine
      .call(
        {
          kind: 'preview',
          number: instance,
          sql: rendered.sql,
          profilePath,
          rowsLimit: Number(this.#request.limit),
          bytesLimit: limits.previewBytes,
          kept: this.#room?.kept,
          seed: this.#room === null ? undefined : randomInt(2 ** 31) / 2 ** 31,
        },
        this.#signal,
      )
      .catch(async (error: unknown) => {
        const find = findIn(lake, this.#request.namespace)
        throw await explained(error, text(), { engine, instance, find, signal: this.#signal })
      })
    this.rendered = undefined
    const landings = new Map(zones.map((zone) => [zone, inputs.landing(zone)]))
    this.#keep(rendered.sql, inputs, landings, { instance, tables })
    // Without the way to an engine: that is nothing the query can help.
    this.#report.ended('sql_execute', outcome.executeMs, {
      rows: outcome.rowCount,
      columns: outcome.columns.length,
    })
    if (outcome.usedKept)
      this.#report.say('info', 'rows of landing files are those that an earlier preview has read of them')
    this.#report.say('info', `${counted(outcome.rowCount, 'row')} in ${since(started)}`)
    return outcome
  }

  #keep(
    sql: string,
    inputs: Inputs,
    landings: PreviewRoom['landings'],
    { instance, tables }: Pick<PreviewRoom, 'instance' | 'tables'>,
  ): void {
    const files = [...landings.values()].flat()
    const bytes = files.reduce((sum, { object }) => sum + Number(object?.sizeBytes ?? 0n), 0)
    if (files.length === 0 || bytes > limits.previewKeptBytes) return
    this.#calls = callsOf(
      sql,
      new Set([...landings.keys()].flatMap((zone) => inputs.landingPath(zone) ?? [])),
    )
    if (this.#calls.length > 0 && this.#room === null)
      this.#made = { place: this.#place, instance, tables, landings, kept: [], refused: new Set() }
  }
}

/** What is left to do is to execute it. */
interface Prepared {
  rendered: Rendered
  inputs: Inputs
  target: Promise<WriteTarget>
  zones: readonly string[]
  /** The author's SQL, for what is wrong with it. */
  text(): RefusedText
}

/** The one call of QueryService that runners answer. */
export const makePreviewService = (
  previewPipeline: PreviewPipeline,
  apis: ApiAddresses,
): Partial<ServiceImpl<typeof QueryService>> => ({
  previewPipeline: async (request, { signal }) =>
    previewPipeline({ ...request, lake: apis.checked(accessOf(request)) }, signal),
})
