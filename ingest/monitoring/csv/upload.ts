import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import { type IncomingFile, type IncomingForm, readUpload } from '../../../http/body/upload.ts'
import { HttpError } from '../../../http/errors.ts'
import { type Caller, type Route, route } from '../../../http/route.ts'
import type { SoughtWorkspace } from '../../../store/postgres/accounts/workspaces.ts'
import { describeItemError } from '../batch.ts'
import { csvEvents, csvLabels, csvTrainingEvents } from '../descriptions.ts'
import type { FieldError } from '../event.ts'
import { tooManyModels } from '../models.ts'
import { type ModelItem, storeItems } from '../store-items.ts'
import { type EventDeps, toCharged, toRefusal, unknownWorkspace } from '../write.ts'
import { type CsvKind, type CsvQuery, readForm, refuseLateFields } from './form.ts'
import { readHead } from './head.ts'
import { type Header, readHeader, readLine } from './lines.ts'
import { createProgress, type Progress } from './progress.ts'
import { type CsvRecord, readCsv } from './reader.ts'

/**
 * CSV files of events. A file is stored while it arrives, up to a thousand lines at a time, and never held as a whole: when
 * the throttle, the queue or a store is slow, the file is read more slowly. The answer reports progress meanwhile.
 *
 * A file that was cut off may be sent again: every line has a prediction id, so no line is stored twice. An id that the line
 * lacks is made from the file's name (or the `Idempotency-Key`), the line's number and its content.
 */
type CsvDeps = EventDeps & {
  /** Notes which model a data set is the reference of. */
  noteReference(set: { dataSetId: bigint; modelName: string; modelVersion: string }): Promise<void>
}

/** Lines that are stored together, by number and by values. */
const linesPerBatch = 1_000
const valuesPerBatch = 20_000
/** While the queue or a store is down the file waits this long before the upload fails. */
const unavailableMsMax = 10 * 60_000
const retryMs = 1_000

type Call = { call: string; kind: CsvKind; query: CsvQuery; caller: Caller; request: FastifyRequest }

export function createCsvRoutes(deps: CsvDeps): Route[] {
  const csvRoute = (description: typeof csvEvents | typeof csvLabels | typeof csvTrainingEvents, kind: CsvKind) =>
    route({
      ...description,
      async handle({ query, caller, request, reply }) {
        void reply.type('application/x-ndjson')
        const call = description.path.replace('/mpm/v2/', '')
        return await receiveFile(deps, { call, kind, query, caller, request })
      },
    })
  return [
    csvRoute(csvEvents, 'EVENTS'),
    csvRoute(csvLabels, 'LATE_LABELS'),
    csvRoute(csvTrainingEvents, 'TRAINING_EVENTS'),
  ]
}

/** Resolves with the answer once the first line is understood. Earlier errors are answered with their HTTP status. */
async function receiveFile(deps: CsvDeps, call: Call): Promise<Readable> {
  const gone = new AbortController()
  const { raw, log } = call.request
  raw.once('close', () => raw.complete || gone.abort())
  const progress = createProgress((error) => log.error({ err: error }, 'an upload of events failed'))
  const started = Promise.withResolvers<void>()
  const work = readUpload(raw, {
    keep: (incoming, form) =>
      storeFile(deps, call, { incoming, form, progress, signal: gone.signal, onStart: started.resolve }),
    // Lines that were stored stay: they are counted in the answer, and are duplicates when sent again.
    discard: async () => undefined,
    fileBytesMax: Number.POSITIVE_INFINITY,
  }).then(({ fields, file: usedFields }) => {
    if (!usedFields)
      throw new HttpError('badRequest', 'file: is missing (a CSV file as a part of the form, or as the body)')
    refuseLateFields(usedFields, fields)
  })
  work.then(progress.end, progress.fail)
  await Promise.race([started.promise, work])
  return progress.stream
}

type Incoming = {
  incoming: IncomingFile
  form: IncomingForm
  progress: Progress
  signal: AbortSignal
  onStart(): void
}

/** @returns the fields of the form that were known when the first line was read */
async function storeFile(deps: CsvDeps, call: Call, file: Incoming): Promise<Record<string, string>> {
  const { incoming, form, progress, onStart } = file
  const head = await readHead(incoming.content)
  if (head.isWhole) await form.ended
  const usedFields = { ...form.fields }
  const target = await findTarget(deps, call, incoming.fileName, usedFields)
  const { modelId, source, workspace } = target
  const store = createBatchStore(deps, call, file, target)

  let header: Header | undefined
  let batch: ModelItem[] = []

  function readRecord(record: CsvRecord, { columns, ignored }: Header) {
    progress.counts.lines++
    const errors: FieldError[] = []
    const item = readLine(record, { columns, ignored }, source, errors)
    if (item) {
      batch.push({ item, modelId })
      return
    }
    progress.reject(record.line, errors)
    const [first] = errors
    if (!first) return
    deps.errorLog.add({
      workspaceId: workspace.id,
      modelName: source.modelName,
      call: call.call,
      fault: describeItemError(first),
      sample: `line ${record.line}`,
    })
  }

  // One batch is stored while the next is read. Not more: of two equal ids in a file the first must win.
  let storing: Promise<void> | undefined
  try {
    for await (const records of readCsv(head.content)) {
      for (const record of records) {
        if (!header) {
          header = readHeader(record, source.needsId)
          progress.start(header.ignored)
          onStart()
          continue
        }
        readRecord(record, header)
        if (batch.length >= linesPerBatch || batch.length * header.columns.length >= valuesPerBatch) {
          await storing
          storing = store(batch)
          storing.catch(() => undefined)
          batch = []
        }
      }
      progress.report()
    }
    if (!header) throw new HttpError('badRequest', 'file: is empty; its first line names the columns')
    await storing
    await store(batch)
  } finally {
    // A batch under way is counted even if the rest of the file is cut off.
    await storing?.catch(() => undefined)
  }
  return usedFields
}

type Target = {
  workspace: SoughtWorkspace
  modelId: bigint
  source: Parameters<typeof readLine>[2]
}

/** Finds whose file it is, and how its lines are read. @throws HttpError */
async function findTarget(
  { models, noteReference }: CsvDeps,
  { kind, query, caller, request }: Call,
  fileName: string | undefined,
  formFields: Record<string, string>,
): Promise<Target> {
  const fields = readForm({ ...query, ...formFields }, kind)
  const { workspaceName, modelName, modelVersion, markers, referenceFor } = fields
  const workspace = await models.workspace(caller, workspaceName)
  if (!workspace) throw unknownWorkspace(workspaceName)
  if (workspace.refusal) throw toRefusal(workspace, caller)
  const modelId = await models.model(workspace.id, modelName)
  if (modelId === undefined) throw new HttpError('badRequest', `modelName: ${tooManyModels}`)
  if (kind === 'TRAINING_EVENTS' && referenceFor !== undefined) {
    await noteReference({ dataSetId: modelId, modelName: referenceFor, modelVersion })
  }
  const key = request.headers['idempotency-key']
  const idScope = JSON.stringify([workspace.id, kind, String(modelId), key ?? fileName ?? '', key !== undefined])
  return {
    workspace,
    modelId,
    source: { workspaceName, modelName, modelVersion, markers, needsId: kind === 'LATE_LABELS', idScope },
  }
}

/** Stores batches of lines, as fast as the throttle admits them, and counts them. */
function createBatchStore(
  deps: CsvDeps,
  { kind, caller }: Call,
  { progress, signal }: Incoming,
  { workspace, modelId }: Target,
) {
  const charged = toCharged({ modelId, workspace })
  return async function store(batch: ModelItem[]): Promise<void> {
    await deps.throttle.wait('events', charged, caller, batch.length, signal)
    const { isNew, labels } = await retryWhileUnavailable(
      () => storeItems(deps.claimBatches, batch, kind === 'TRAINING_EVENTS'),
      signal,
    )
    const accepted = isNew.filter(Boolean).length
    const { counts } = progress
    counts.accepted += accepted
    counts.duplicates += batch.length - accepted
    counts.labels.accepted += labels.accepted
    counts.labels.duplicates += labels.duplicates
    deps.counters.events(modelId, accepted, batch.length - accepted)
    deps.onAccepted(accepted)
    progress.report()
  }
}

async function retryWhileUnavailable<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const deadline = performance.now() + unavailableMsMax
  for (;;) {
    try {
      return await work()
    } catch (error) {
      const isUnavailable = error instanceof HttpError && error.kind === 'unavailable'
      if (!isUnavailable || performance.now() > deadline) throw error
      await sleep(retryMs, undefined, { signal })
    }
  }
}
