import { PassThrough, type Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { type IncomingFile, type IncomingForm, readUpload } from '../../http/body/upload.ts'
import { HttpError, restrictedAccount, toErrorEnvelope, toRefusal } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { SoughtWorkspace } from '../../store/postgres/accounts/workspaces.ts'
import { describeFault } from './batch.ts'
import { readCsv } from './csv.ts'
import { type Header, readHeader, readLine, toMissingMarkers } from './csv-events.ts'
import { csvEvents, csvFields, csvLabels, csvTrainingEvents } from './descriptions.ts'
import type { FieldFault } from './event.ts'
import { modelsPerWorkspaceMax } from './models.ts'
import { type Deps, unknownWorkspace } from './routes.ts'
import { type Kept, keepItems } from './writer.ts'

/**
 * Files of events. A file is stored while it comes in, some thousand lines at a time, and never held: when the throttle, the
 * queue or a store is slow, the file is read more slowly. What happens is told in lines of JSON while it does.
 *
 * A file that was cut off and is sent again ends as if it were sent once, for every line has an id: where it brings none,
 * one is made of the file's name (or the `Idempotency-Key`), the number of the line and what stands in it.
 */
type CsvDeps = Deps & {
  /** Remembers what a data set is a reference for. */
  noteReference(set: { dataSetId: bigint; modelName: string; modelVersion: string }): Promise<void>
}

/** Lines that are stored together, by number and by values. */
const linesAtOnce = 1_000
const valuesAtOnce = 20_000
/** So much of a file is held until the fields that may come after it are known: small files may come in any order. */
const headBytesMax = 1024 * 1024
const faultsToldMax = 1_000
const progressEveryMs = 1_000
/** What is not well for longer is told; the file can be sent again. */
const unavailableMsMax = 10 * 60_000
const retryMs = 1_000

type Given = z.output<typeof csvFields>

type Kind = 'EVENTS' | 'LATE_LABELS' | 'TRAINING_EVENTS'

export function createCsvRoutes(deps: CsvDeps): Route[] {
  const csvRoute = (description: typeof csvEvents | typeof csvLabels | typeof csvTrainingEvents, kind: Kind) =>
    route({
      ...description,
      async handle({ query, caller, request, reply }) {
        reply.type('application/x-ndjson')
        const call = description.path.replace('/mpm/v2/', '')
        return await takeUpload(deps, { call, kind, query, caller, request })
      },
    })
  return [
    csvRoute(csvEvents, 'EVENTS'),
    csvRoute(csvLabels, 'LATE_LABELS'),
    csvRoute(csvTrainingEvents, 'TRAINING_EVENTS'),
  ]
}

type Call = { call: string; kind: Kind; query: Given; caller: Caller; request: FastifyRequest }

/** Answers with what is told of the upload, from when the first line of it was understood. */
async function takeUpload(deps: CsvDeps, call: Call): Promise<Readable> {
  const gone = new AbortController()
  const { raw } = call.request
  raw.once('close', () => raw.complete || gone.abort())
  const telling = createTelling()
  const started = Promise.withResolvers<void>()
  const work = readUpload(raw, {
    keep: (incoming, form) =>
      keepFile(deps, call, { incoming, form, telling, signal: gone.signal, onStart: started.resolve }),
    // What was stored of a file stays: it is told, and is the same when it is sent again.
    discard: async () => undefined,
    fileBytesMax: Number.POSITIVE_INFINITY,
  }).then(({ fields, file: used }) => {
    if (!used) throw new HttpError('badRequest', 'file: is missing (a CSV file as a part of the form, or as the body)')
    refuseLateFields(used, fields)
  })
  work.then(
    () => telling.end(),
    (error) => telling.fail(error, call),
  )
  await Promise.race([started.promise, work])
  return telling.stream
}

type FileInHand = {
  incoming: IncomingFile
  form: IncomingForm
  telling: Telling
  signal: AbortSignal
  onStart(): void
}

/** @returns the fields it went by */
async function keepFile(
  deps: CsvDeps,
  { call, kind, query, caller, request }: Call,
  { incoming, form, telling, signal, onStart }: FileInHand,
): Promise<Record<string, string>> {
  const { counts } = telling
  const isReference = kind === 'TRAINING_EVENTS'
  const head = await readHead(incoming.content)
  if (head.isWhole) await form.ended
  const used = { ...form.fields }
  const fields = readGiven({ ...query, ...used }, kind)
  const { workspace, modelId } = await findTarget(deps, caller, fields)
  const charged = { id: modelId, limits: workspace.limits }
  if (isReference && fields.forModel !== undefined) {
    await deps.noteReference({
      dataSetId: modelId,
      modelName: fields.forModel,
      modelVersion: fields.modelVersion,
    })
  }
  const key = request.headers['idempotency-key']
  const source = {
    workspaceName: fields.workspaceName,
    modelName: fields.modelName,
    modelVersion: fields.modelVersion,
    markers: fields.markers,
    needsId: kind === 'LATE_LABELS',
    idScope: JSON.stringify([workspace.id, kind, String(modelId), key ?? incoming.fileName ?? '', key !== undefined]),
  }

  async function keep(kept: Kept[]) {
    await deps.throttle.wait('events', charged, caller, kept.length, signal)
    const { isNew, labels } = await keepPatiently(() => keepItems(deps.rounds, kept, isReference), signal)
    const accepted = isNew.filter(Boolean).length
    counts.accepted += accepted
    counts.duplicates += kept.length - accepted
    counts.labels.accepted += labels.accepted
    counts.labels.duplicates += labels.duplicates
    deps.counters.events(modelId, accepted, kept.length - accepted)
    deps.onAccepted(accepted)
    telling.progress()
  }

  let header: Header | undefined
  let batch: Kept[] = []
  // One part is stored while the next is read. Not more: of two equal ids in a file the first is the one.
  let keeping: Promise<void> | undefined
  try {
    for await (const records of readCsv(head.content)) {
      for (const record of records) {
        if (!header) {
          header = readHeader(record, source.needsId)
          telling.start(header.ignored)
          onStart()
          continue
        }
        counts.lines++
        const faults: FieldFault[] = []
        const item = readLine(record, header, source, faults)
        if (item) batch.push({ item, modelId })
        else {
          telling.reject(record.line, faults)
          for (const fault of faults.slice(0, 1)) {
            deps.faultLog.add({
              workspaceId: workspace.id,
              modelName: fields.modelName,
              call,
              fault: describeFault(fault),
              sample: `line ${record.line}`,
            })
          }
        }
        if (batch.length >= linesAtOnce || batch.length * header.columns.length >= valuesAtOnce) {
          await keeping
          keeping = keep(batch)
          keeping.catch(() => undefined)
          batch = []
        }
      }
      telling.progress()
    }
    if (!header) throw new HttpError('badRequest', 'file: is empty; its first line names the columns')
    await keeping
    await keep(batch)
  } finally {
    // What is under way is counted, also when the rest is cut off.
    await keeping?.catch(() => undefined)
  }
  return used
}

/** The beginning of a file, and then all of it. */
async function readHead(content: Readable): Promise<{ isWhole: boolean; content: AsyncIterable<Buffer> }> {
  const chunks = content[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  const head: Buffer[] = []
  let bytes = 0
  let isWhole = false
  while (bytes < headBytesMax && !isWhole) {
    const { value, done } = await chunks.next()
    isWhole = done === true
    if (isWhole) break
    head.push(value)
    bytes += value.length
  }
  async function* all() {
    try {
      yield* head.splice(0)
      for (;;) {
        const { value, done } = await chunks.next()
        if (done) return
        yield value
      }
    } finally {
      await chunks.return?.()
    }
  }
  return { isWhole, content: all() }
}

/** The fields that a file is read by; all that are needed. */
function readGiven(values: Record<string, unknown>, kind: Kind) {
  const checked = csvFields.safeParse(values)
  const issue = checked.error?.issues[0]
  if (!checked.success) throw new HttpError('badRequest', `${issue?.path.join('.')}: ${issue?.message}`)
  const { workspaceName, modelName, modelVersion, datasetName, NAValues, keepDefaultNAValues } = checked.data
  const missing = (field: string, why = '') =>
    new HttpError('badRequest', `${field}: is missing (as a field of the form before the file, or in the query)${why}`)
  if (!workspaceName) throw missing('workspaceName')
  const target = datasetName || (kind === 'TRAINING_EVENTS' ? undefined : modelName)
  if (!target) throw missing(kind === 'TRAINING_EVENTS' ? 'datasetName' : 'modelName')
  const keepDefault = keepDefaultNAValues?.toLowerCase() ?? 'true'
  if (keepDefault !== 'true' && keepDefault !== 'false') {
    throw new HttpError('badRequest', 'keepDefaultNAValues: expected true or false')
  }
  return {
    workspaceName,
    modelName: target,
    forModel: modelName || undefined,
    modelVersion: modelVersion ?? '',
    markers: toMissingMarkers(NAValues, keepDefault === 'true'),
  }
}

async function findTarget(
  { models }: CsvDeps,
  { userId }: Caller,
  { workspaceName, modelName }: { workspaceName: string; modelName: string },
): Promise<{ workspace: SoughtWorkspace; modelId: bigint }> {
  const workspace = await models.workspace(userId, workspaceName)
  if (!workspace) throw unknownWorkspace(workspaceName)
  if (workspace.isWithheld) throw restrictedAccount()
  const modelId = await models.model(workspace.id, modelName)
  if (modelId !== undefined) return { workspace, modelId }
  throw new HttpError('badRequest', `modelName: the workspace has ${modelsPerWorkspaceMax} models, as many as it may`)
}

/** Fields that came after a file whose lines were stored without them. */
function refuseLateFields(used: Record<string, string>, fields: Record<string, string>) {
  const late = Object.keys(csvFields.shape).filter((field) => fields[field] !== used[field])
  if (late.length === 0) return
  throw new HttpError(
    'badRequest',
    `${late.join(', ')}: came after the file, whose lines were stored without it: send fields before a large file`,
  )
}

/** Tries again while the queue or a store is away: the file waits meanwhile. */
async function keepPatiently<T>(keep: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const deadline = performance.now() + unavailableMsMax
  for (;;) {
    try {
      return await keep()
    } catch (error) {
      const isPassing = error instanceof HttpError && error.refusal === 'unavailable'
      if (!isPassing || performance.now() > deadline) throw error
      await sleep(retryMs, undefined, { signal })
    }
  }
}

type Counts = {
  lines: number
  accepted: number
  duplicates: number
  rejected: number
  labels: { accepted: number; duplicates: number }
}

type Telling = ReturnType<typeof createTelling>

/** Lines of JSON that tell what happens; a caller that does not read them is told less. */
function createTelling() {
  const stream = new PassThrough()
  // Nobody may be there any more to be told.
  stream.on('error', () => undefined)
  const counts: Counts = { lines: 0, accepted: 0, duplicates: 0, rejected: 0, labels: { accepted: 0, duplicates: 0 } }
  const faults: { line: number; field: string; msg: string }[] = []
  let toldAt = performance.now()
  // While nothing goes on the caller, and what stands between, sees that the connection is alive.
  const alive = setInterval(() => progress(), progressEveryMs * 5)

  function write(line: object) {
    if (!stream.writableEnded && !stream.destroyed) stream.write(`${JSON.stringify(line)}\n`)
  }

  function progress() {
    if (performance.now() - toldAt < progressEveryMs || stream.writableNeedDrain) return
    toldAt = performance.now()
    write({ lines: counts.lines, accepted: counts.accepted, duplicates: counts.duplicates, rejected: counts.rejected })
  }

  function finish(envelope: object) {
    clearInterval(alive)
    write({ ...envelope, done: true, ...counts, faults })
    stream.end()
  }

  return {
    stream,
    counts,
    progress,
    start(ignoredColumns: string[]) {
      write({ lines: 0, accepted: 0, duplicates: 0, rejected: 0, ignoredColumns: ignoredColumns.slice(0, 100) })
    },
    reject(line: number, found: FieldFault[]) {
      counts.rejected++
      for (const { field, msg } of found) {
        if (faults.length >= faultsToldMax) return
        faults.push({ line, field, msg })
        write({ line, msg: describeFault({ field, msg }) })
      }
    },
    end: () => finish({ msg: 'Saved', code: 200, data: null, sdk_error_code: 0 }),
    fail(error: unknown, { request }: Call) {
      const refusal = toRefusal(error)
      const isGone = error instanceof Error && error.name === 'AbortError'
      if (refusal.refusal === 'bug' && !isGone) request.log.error({ err: error }, 'an upload of events failed')
      finish(toErrorEnvelope(refusal))
    },
  }
}
