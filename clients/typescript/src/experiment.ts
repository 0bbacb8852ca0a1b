import { createErrorLog, type ErrorLog, type LoggingError } from './error-log.ts'
import { toInt64, toTimestampMs } from './json.ts'
import { type MetricEntry, metricBytes, toMetricShipment } from './metrics.ts'
import { type ParameterEntry, parameterBytes, toParameterShipment } from './parameters.ts'
import { perform } from './perform.ts'
import type { Platform } from './platform.ts'
import { randomHex } from './random.ts'
import type { AssetFile, Request } from './request.ts'
import { createSender, type Entry, type Sender, type Shipment } from './sender.ts'
import { type Connection, type ConnectionOptions, readConnection, readPositive } from './settings.ts'
import { setQuietTimeout, type Timer } from './timers.ts'
import { type Answer, type Body, createTransport, type Transport } from './transport.ts'

export type ExperimentOptions = ConnectionOptions & {
  /** In Node else `SVC_PROJECT_NAME`; else `general`. Made when it is not there. */
  projectName?: string
  /** Else the service makes a readable one. */
  experimentName?: string
  /** 32 to 50 letters and digits; else a random one. */
  experimentKey?: string
  /** How long a point may wait for company. 1,000. */
  batchWaitMs?: number
}

/** Where and when a point was measured. */
export type MetricPlace = {
  step?: number | bigint
  epoch?: number | bigint
  context?: string
  /** Now, when it is left out; in milliseconds where it is a number. */
  timestamp?: number | Date
}

export type AssetOptions = {
  /** The name of the file, when it is left out. */
  name?: string
  type?: string
  context?: string
  step?: number | bigint
  metadata?: Record<string, unknown>
  /** True: takes the place of all assets of its name. */
  overwrite?: boolean
}

type Value = string | number | bigint | boolean
type LoggedEntry = MetricEntry | ParameterEntry | CallEntry
type CallEntry = Entry & { kind: 'call'; request: Request; onAnswer?(answer: unknown): void }

const entriesPerRequest = 10_000
const bytesPerRequest = 4 * 1024 * 1024
const firstBeatMs = 10_000

/**
 * An experiment that is written to. The calls return at once and never throw: what is wrong stands in the log, and is read
 * with `loggingErrors`. What is logged waits in memory and is sent in the order in which it was logged.
 */
export class BaseExperiment<Asset> {
  readonly key: string
  readonly #platform: Platform<Asset>
  readonly #connection: Connection
  readonly #errors: ErrorLog
  readonly #transport: Transport
  readonly #sender: Sender<LoggedEntry>
  /** Requests are repeated with the key of the first attempt, by which the service knows them again. */
  readonly #requests = { id: randomHex(12), count: 0 }
  #link: string | undefined
  #beat: Timer | undefined
  #hasEnded = false
  #isOwner = false
  #isStopRequested = false

  /**
   * @param isNew false: goes on with the experiment of the key
   * @throws Error when a setting is missing or wrong, and says what to do
   * @internal
   */
  protected constructor(platform: Platform<Asset>, options: ExperimentOptions, isNew: boolean) {
    const { experimentKey } = options
    if (!isNew && !experimentKey) {
      throw new Error('experimentKey: is missing: pass the key of the experiment to go on with')
    }
    this.key = experimentKey ?? randomHex(16)
    this.#platform = platform
    this.#connection = readConnection(options, platform)
    this.#errors = createErrorLog(this.#connection.log)
    const stop = new AbortController()
    const transport = createTransport(this.#connection, stop.signal, platform)
    this.#transport = transport
    this.#sender = createSender<LoggedEntry>({
      connection: this.#connection,
      platform,
      errors: this.#errors,
      take: (waiting) => this.#take(waiting),
      isFull: (count, bytes) => count >= entriesPerRequest || bytes >= bytesPerRequest,
      waitMs: readPositive('batchWaitMs', options.batchWaitMs, 1_000),
      perform: (request, mayHaveCome) => perform({ transport, platform }, request, mayHaveCome),
      onExit: (failure) => this.#leave(failure),
      stop,
    })
    if (isNew) this.#create(options)
    else void this.#keepAlive()
  }

  /** Where people see it; undefined until the service has made it, and for one that is gone on with. */
  get link(): string | undefined {
    return this.#link
  }

  /** True once somebody asked for the experiment to be stopped. */
  get isStopRequested(): boolean {
    return this.#isStopRequested
  }

  /** Logs a point of a metric. NaN, the infinities and -0 are values like any other. */
  logMetric(name: string, value: number | bigint, place: MetricPlace = {}) {
    this.#try(name, () => {
      if (typeof value !== 'number' && typeof value !== 'bigint') {
        throw new Error(`the value of a metric must be a number, not ${describe(value)}`)
      }
      const { step, epoch, context = '' } = place
      const point = {
        kind: 'metric' as const,
        name: checkName(name),
        value: typeof value === 'bigint' ? Number(value) : value,
        context,
        step: step === undefined ? undefined : toInt64('step', step),
        epoch: epoch === undefined ? undefined : toInt64('epoch', epoch),
        timestampMs: toTimestampMs(place.timestamp),
      }
      this.#sender.add({ ...point, bytes: metricBytes(point) })
    })
  }

  /** Logs a point of each metric, at the same place. */
  logMetrics(metrics: Record<string, number | bigint>, place: MetricPlace = {}) {
    const timestamp = place.timestamp ?? Date.now()
    for (const [name, value] of Object.entries(metrics)) this.logMetric(name, value, { ...place, timestamp })
  }

  /** Logs a parameter, of which the last value is kept. */
  logParameter(name: string, value: Value, { step }: { step?: number | bigint } = {}) {
    this.#try(name, () => {
      const fields: Body<'/clientlib/batch/logger/experiment/parameter'>['values'][number] = {
        parameterName: checkName(name),
        parameterValue: toText(value),
        timestamp: Date.now(),
        ...(step !== undefined && { step: String(toInt64('step', step)) }),
      }
      const parameter = { kind: 'parameter' as const, name, json: JSON.stringify(fields) }
      this.#sender.add({ ...parameter, bytes: parameterBytes(parameter) })
    })
  }

  logParameters(parameters: Record<string, Value>, options: { step?: number | bigint } = {}) {
    for (const [name, value] of Object.entries(parameters)) this.logParameter(name, value, options)
  }

  /** Logs a key and a value, of which the last is kept. */
  logOther(key: string, value: Value) {
    this.#try(key, () => {
      const other = { key: checkName(key), value: toText(value), timestamp: Date.now() }
      this.#call('/api/rest/v2/write/experiment/log-other', key, other)
    })
  }

  logOthers(others: Record<string, Value>) {
    for (const [key, value] of Object.entries(others)) this.logOther(key, value)
  }

  /** Renames the experiment. */
  setName(name: string) {
    this.logOther('Name', name)
  }

  addTags(tags: readonly string[]) {
    this.#try('tags', () => this.#call('/api/rest/v2/write/experiment/tags', 'tags', { addedTags: [...tags] }))
  }

  /** Logs a text as an asset of type `text-sample`. */
  logText(text: string, options: Omit<AssetOptions, 'type' | 'overwrite'> = {}) {
    this.#try('text', () => {
      if (typeof text !== 'string') throw new Error(`a text must be a string, not ${describe(text)}`)
      const file = new TextEncoder().encode(text)
      this.#upload({ name: 'text-sample.txt', file, bytes: file.length }, { ...options, type: 'text-sample' })
    })
  }

  /** Logs a file, or bytes. A file is read when it is sent: it has to stay until then. */
  logAsset(asset: Asset, options: AssetOptions = {}) {
    this.#try(options.name ?? (typeof asset === 'string' ? asset : 'asset'), () => {
      this.#upload(this.#platform.toAsset(asset), options)
    })
  }

  /** What went wrong. It is forgotten then, unless `clear` is false. */
  loggingErrors(clear = true): LoggingError[] {
    return this.#errors.read(clear)
  }

  /** Resolves when everything that was logged is stored, or was refused. */
  async flush(): Promise<void> {
    await this.#sender.flush()
  }

  /** Sends what there is and closes: nothing can be logged afterwards. Waits for 30 s at most, or as long as is said. */
  async end(timeoutMs?: number): Promise<void> {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#addEnd(undefined)
    await this.#sender.end(timeoutMs)
  }

  /** The process ends at once. */
  #leave(failure: string | undefined) {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#addEnd(failure)
  }

  #addEnd(failure: string | undefined) {
    clearTimeout(this.#beat)
    // An experiment that is gone on with is ended by whoever made it.
    if (this.#isOwner) {
      const outcome = { isAlive: false, hasCrashed: failure !== undefined }
      this.#call('/api/rest/v2/write/experiment/update-status', 'end', {
        ...outcome,
        ...(failure !== undefined && { error: failure.slice(0, 10_000) }),
      })
    }
    this.#call('/api/rest/v2/write/experiment/set-start-end-time', 'end', { endTimeMillis: Date.now() })
  }

  #create({ projectName, experimentName }: ExperimentOptions) {
    this.#isOwner = true
    this.#sender.add({
      kind: 'call',
      bytes: 1_000,
      name: this.key,
      request: {
        kind: 'create',
        workspaceName: this.#transport.workspaceName,
        fields: {
          projectName: projectName || this.#platform.environment.SVC_PROJECT_NAME || 'general',
          experimentKey: this.key,
          ...(experimentName !== undefined && { experimentName }),
        },
      },
      onAnswer: (answer) => {
        const made = answer as Answer<'/api/rest/v2/write/experiment/create'> | undefined
        this.#link = made?.link
        if (made) this.#connection.log.info(`svc: the experiment is at ${made.link}`)
        void this.#keepAlive()
      },
    })
  }

  /** Says that the experiment runs, as often as the service asks for it. Never fails. */
  async #keepAlive() {
    let beatMs = firstBeatMs
    try {
      const status = await this.#transport.get('/api/rest/v2/write/experiment/set-status', `?experimentKey=${this.key}`)
      beatMs = status.isAliveBeatDurationMillis
      this.#isStopRequested ||= status.stopRequested
    } catch {
      // The next one tells as much. What keeps data from being taken in is told where it is sent.
    }
    if (!this.#hasEnded) this.#beat = setQuietTimeout(() => void this.#keepAlive(), beatMs)
  }

  #call<
    Path extends
      | '/api/rest/v2/write/experiment/log-other'
      | '/api/rest/v2/write/experiment/tags'
      | '/api/rest/v2/write/experiment/set-start-end-time'
      | '/api/rest/v2/write/experiment/update-status',
  >(path: Path, name: string, fields: Omit<Body<Path>, 'experimentKey'>) {
    const body = JSON.stringify({ experimentKey: this.key, ...fields })
    const request = { kind: 'json' as const, path, body, key: this.#newRequestKey() }
    this.#sender.add({ kind: 'call', bytes: body.length * 2 + 200, name, request })
  }

  #upload(asset: { name: string | undefined; file: AssetFile; bytes: number }, options: AssetOptions) {
    const { name = asset.name ?? 'asset', type, context, step, metadata, overwrite } = options
    const query = {
      experimentKey: this.key,
      // Of its own, so that an upload that is repeated takes its own place.
      assetId: randomHex(16),
      fileName: name,
      ...(type !== undefined && { type }),
      ...(context !== undefined && { context }),
      ...(step !== undefined && { step: String(toInt64('step', step)) }),
      ...(overwrite && { overwrite: 'true' }),
    }
    const fields: Record<string, string> = metadata === undefined ? {} : { metadata: JSON.stringify(metadata) }
    const request = { kind: 'upload' as const, query, name, file: asset.file, fields, key: this.#newRequestKey() }
    this.#sender.add({ kind: 'call', bytes: asset.bytes + 1_000, name, request })
  }

  #take(waiting: LoggedEntry[]): Shipment<LoggedEntry> {
    const [first] = waiting
    if (first?.kind === 'call') {
      waiting.shift()
      return { entries: [first], toRequest: () => first.request, ...(first.onAnswer && { onAnswer: first.onAnswer }) }
    }
    const { key: experimentKey } = this
    const newRequestKey = () => this.#newRequestKey()
    return first?.kind === 'parameter'
      ? toParameterShipment(takeOfKind(waiting, 'parameter'), { experimentKey, newRequestKey })
      : toMetricShipment(takeOfKind(waiting, 'metric'), { experimentKey, newRequestKey, errors: this.#errors })
  }

  #newRequestKey(): string {
    return `${this.#requests.id}-${this.#requests.count++}`
  }

  /** What is wrong with a call is told, and does not reach the caller. */
  #try(name: string, log: () => void) {
    try {
      log()
    } catch (error) {
      this.#errors.add(error instanceof Error ? error.message : String(error), [String(name)])
    }
  }
}

/** They need not wait for others among them: only what was logged last of a name has to be sent last. */
function takeOfKind<Kind extends 'metric' | 'parameter'>(waiting: LoggedEntry[], kind: Kind) {
  const taken: (LoggedEntry & { kind: Kind })[] = []
  let bytes = 0
  let left = 0
  let isFull = false
  for (const it of waiting) {
    isFull ||= it.kind === kind && taken.length > 0 && bytes + it.bytes > bytesPerRequest
    if (it.kind !== kind || isFull || taken.length === entriesPerRequest) waiting[left++] = it
    else {
      taken.push(it as LoggedEntry & { kind: Kind })
      bytes += it.bytes
    }
  }
  waiting.length = left
  return taken
}

function checkName(name: unknown): string {
  if (typeof name === 'string' && name !== '') return name
  throw new Error(`a name must be a string that is not empty, not ${describe(name)}`)
}

function toText(value: Value): string {
  if (['string', 'number', 'bigint', 'boolean'].includes(typeof value))
    return Object.is(value, -0) ? '-0' : String(value)
  throw new Error(`a value must be a string, a number or a boolean, not ${describe(value)}`)
}

function describe(value: unknown): string {
  return value === null ? 'null' : typeof value === 'string' ? JSON.stringify(value.slice(0, 60)) : typeof value
}
