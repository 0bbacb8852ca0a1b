import { orSet } from './environment.ts'
import { createErrorLog, type ErrorLog, type LoggingError } from './error-log.ts'
import { toJsonNumber, toTimestampMs } from './json.ts'
import { perform } from './perform.ts'
import type { Platform } from './platform.ts'
import { createSender, type Entry, type Sender, type Shipment } from './sender.ts'
import { type Connection, type ConnectionOptions, readConnection, readPositive } from './settings.ts'
import { type Answer, createTransport, type Transport } from './transport.ts'

export type MonitoringOptions = ConnectionOptions & {
  /** In Node else `SVC_MPM_MODEL_NAME`. Comes into being with its first event. */
  modelName?: string
  /** In Node else `SVC_MPM_MODEL_VERSION`. */
  modelVersion?: string
  /** How many events go out in one request. 1,000. */
  batchSize?: number
  /** How long an event may wait for company. 2,000. */
  batchWaitMs?: number
}

/** NaN, null and undefined are values that are missing. JSON does not tell 1.0 from 1: both are integers. */
export type Scalar = string | number | bigint | boolean | null | undefined
export type Scalars = Record<string, Scalar>

export type Event = {
  /** The first event of a prediction id is kept for ever. */
  predictionId: string
  inputFeatures?: Scalars
  /** The output feature `value`. */
  outputValue?: Scalar
  /** From 0 to 1: the output feature `probability`. */
  outputProbability?: number
  outputFeatures?: Scalars
  labels?: Scalars
  /** Now, when it is left out; in milliseconds where it is a number. */
  timestamp?: number | Date
}

export type Labels = {
  predictionId: string
  /** The first labels of a prediction id are kept. */
  labels: Scalars
  timestamp?: number | Date
}

type EventEntry = Entry & { fields: string }
type EventsAnswer = Answer<'/mpm/v2/events/batch'>

const bytesPerRequest = 8 * 1024 * 1024
const batchSizeMax = 50_000

/**
 * Logs what a deployed model is asked and answers, and what turned out to be true. The calls return at once and never throw:
 * what is wrong stands in the log, and is read with `loggingErrors`.
 *
 * The service keeps the first event of a prediction id for ever: a batch whose answer was lost is sent again as it was, and
 * nothing of it is stored twice.
 */
export class BaseMonitoringLogger {
  readonly #platform: Platform
  readonly #connection: Connection
  readonly #errors: ErrorLog
  readonly #transport: Transport
  readonly #sender: Sender<EventEntry>
  readonly #stop = new AbortController()
  readonly #model: { modelName: string | undefined; modelVersion: string | undefined }

  /**
   * @throws Error when a setting is missing or wrong, and says what to do
   * @internal
   */
  protected constructor(platform: Platform, options: MonitoringOptions) {
    const { environment } = platform
    this.#platform = platform
    this.#connection = readConnection(options, platform)
    this.#model = {
      modelName: options.modelName || environment.SVC_MPM_MODEL_NAME || undefined,
      modelVersion: options.modelVersion || environment.SVC_MPM_MODEL_VERSION || undefined,
    }
    this.#errors = createErrorLog(this.#connection.log)
    const transport = createTransport(this.#connection, this.#stop.signal, platform)
    this.#transport = transport
    const batchSize = Math.min(Math.ceil(readPositive('batchSize', options.batchSize, 1_000)), batchSizeMax)
    this.#sender = createSender<EventEntry>({
      connection: this.#connection,
      platform,
      errors: this.#errors,
      take: (waiting) => this.#take(waiting, batchSize),
      isFull: (count, bytes) => count >= batchSize || bytes >= bytesPerRequest,
      waitMs: readPositive('batchWaitMs', options.batchWaitMs, 2_000),
      perform: (request, mayHaveCome) => perform({ transport, platform }, request, mayHaveCome),
      stop: this.#stop,
    })
  }

  /** Logs what the model was asked and what it answered. */
  logEvent(event: Event) {
    this.#add(event, () => {
      const { outputValue, outputProbability, outputFeatures = {}, labels } = event
      const prediction = { ...checkScalars('outputFeatures', outputFeatures) }
      if (outputValue !== undefined) put(prediction, 'value', outputValue, 'outputValue')
      if (outputProbability !== undefined) {
        put(prediction, 'probability', checkProbability(outputProbability), 'outputProbability')
      }
      // Features are there even when there are none: an item with nothing but labels would be taken for labels alone.
      const parts = [`"features":${toJson('inputFeatures', event.inputFeatures ?? {})}`]
      if (Object.keys(prediction).length > 0) parts.push(`"prediction":${toJson('outputFeatures', prediction)}`)
      if (labels !== undefined) parts.push(`"labels":${toJson('labels', labels)}`)
      return parts
    })
  }

  /** Logs what turned out to be true of a prediction, before or after its event. */
  logLabel(labels: Labels) {
    this.#add(labels, () => {
      const given = checkScalars('labels', labels.labels ?? {})
      if (!Object.values(given).some(isThere))
        throw new Error('labels: there is none: pass an object of names and values')
      return [`"labels":${toJson('labels', given)}`]
    })
  }

  /**
   * What uploads need.
   *
   * @internal
   */
  protected get parts() {
    const { log } = this.#connection
    const { signal } = this.#stop
    return { transport: this.#transport, errors: this.#errors, log, signal, model: this.#model }
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
    await this.#sender.end(timeoutMs)
  }

  #add(item: { predictionId: string; timestamp?: number | Date }, toParts: () => string[]) {
    const name = String(item?.predictionId)
    try {
      if (typeof item.predictionId !== 'string' || item.predictionId === '') {
        throw new Error('predictionId: must be a string that is not empty')
      }
      if (this.#model.modelName === undefined) {
        const how = `pass it to MonitoringLogger${orSet(this.#platform, 'SVC_MPM_MODEL_NAME')}`
        throw new Error(`modelName: is missing: ${how}`)
      }
      const timestamp = toTimestampMs(item.timestamp)
      const fields = [`"predictionId":${JSON.stringify(name)}`, `"timestamp":${timestamp}`, ...toParts()].join(',')
      this.#sender.add({ name, fields, bytes: fields.length * 2 + 200 })
    } catch (error) {
      this.#errors.add(error instanceof Error ? error.message : String(error), [name])
    }
  }

  #take(waiting: EventEntry[], batchSize: number): Shipment<EventEntry> {
    let count = 0
    let bytes = 0
    for (const it of waiting) {
      if (count >= batchSize || (count > 0 && bytes + it.bytes > bytesPerRequest)) break
      count++
      bytes += it.bytes
    }
    return this.#toShipment(waiting.splice(0, count))
  }

  #toShipment(entries: EventEntry[]): Shipment<EventEntry> {
    const middle = Math.ceil(entries.length / 2)
    return {
      entries,
      toRequest: () => ({
        kind: 'events',
        model: this.#model,
        workspaceName: this.#transport.workspaceName,
        events: entries.map((it) => it.fields),
      }),
      onAnswer: (answer, wasRepeated) => this.#tell(entries, answer as EventsAnswer, wasRepeated),
      ...(entries.length > 1 && {
        split: () => [this.#toShipment(entries.slice(0, middle)), this.#toShipment(entries.slice(middle))],
      }),
    }
  }

  #tell(entries: EventEntry[], { rejected, faults, duplicates, labels }: EventsAnswer, wasRepeated: boolean) {
    const told = new Set<number>()
    for (const { index, field, msg } of faults) {
      told.add(index)
      const fault = field === '' ? msg : `${field}: ${msg}`
      this.#errors.add(`the service rejected an event: ${fault}`, [entries[index]?.name ?? `[${index}]`])
    }
    if (rejected > told.size) this.#errors.add('the service rejected further events', [], rejected - told.size)
    // Of what may have been stored before, its own repetition is no news.
    const repeated = wasRepeated ? 0 : Math.max(duplicates, labels.duplicates)
    if (repeated === 0) return
    const named = entries.length === 1 ? entries.map((it) => it.name) : []
    this.#errors.add('an event or labels of this prediction id were there already: the first are kept', named, repeated)
  }
}

const isThere = (value: Scalar) => value !== null && value !== undefined && !Number.isNaN(value)

function checkScalars(argument: string, given: unknown): Scalars {
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return given as Scalars
  throw new Error(`${argument}: expected an object of names and values`)
}

function toJson(argument: string, given: unknown): string {
  const fields = Object.entries(checkScalars(argument, given)).map(
    ([name, value]) => `${JSON.stringify(name)}:${toJsonScalar(`${argument}.${name}`, value)}`,
  )
  return `{${fields.join(',')}}`
}

function toJsonScalar(name: string, value: Scalar): string {
  if (!isThere(value)) return 'null'
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return JSON.stringify(value)
    case 'bigint':
      return toJsonNumber(value)
    case 'number':
      if (Number.isFinite(value)) return toJsonNumber(value)
      throw new Error(`${name}: is infinite, which no event can hold: give null where there is no value`)
  }
  throw new Error(`${name}: expected a number, a bigint, a boolean or a string, not ${typeof value}`)
}

function checkProbability(given: number): number | null {
  if (!isThere(given)) return null
  if (typeof given === 'number' && given >= 0 && given <= 1) return given
  throw new Error(`outputProbability: must be a number from 0 to 1, not ${String(given)}`)
}

function put(scalars: Scalars, name: string, value: Scalar, argument: string) {
  if (Object.hasOwn(scalars, name)) {
    throw new Error(`${argument}: "${name}" is given a second time, in outputFeatures: give it in one place`)
  }
  scalars[name] = value
}
