import type { NativeBlock } from '../../store/clickhouse/blocks/native-block.ts'
import type { valueChunksTable } from '../../store/clickhouse/monitoring/value-chunks.ts'
import type { Scalar } from './event.ts'
import { type NewEvent, toNumber, toText, toType } from './rows.ts'

/**
 * The fewest values that a name has, on average, where the values of a model's events are stored as chunks. A chunk of fewer
 * costs more than their rows: on disk, when chunks are merged, and when they are unfolded by reads.
 */
const valuesPerChunkLeast = 8

/** Events of one model, kind and version, and the place of each in its claim, in ascending order. */
export type EventGroup = { events: NewEvent[]; places: number[] }

/** The values of a group of events, sorted by name, then by event: chunk `n` has those from `starts[n]` to `starts[n + 1]`. */
export type ValueChunks = {
  group: EventGroup
  parts: number[]
  names: string[]
  starts: Uint32Array
  /** The index of the event of each value; only of chunks that do not have a value of each event. */
  indexes: Uint32Array
  types: Uint8Array
  numbers: Float64Array
  /** Undefined where no value has a text. */
  texts: string[] | undefined
}

/** Groups the events at some places of a claim by model, kind and version. */
export function groupEvents(events: readonly NewEvent[], places: readonly number[]): EventGroup[] {
  const groups = new Map<string, EventGroup>()
  let last: NewEvent | undefined
  let group: EventGroup | undefined
  for (const place of places) {
    const event = events[place] as NewEvent
    if (!group || !last || !isAlike(event, last)) {
      const key = `${event.modelId} ${event.kind} ${event.version}`
      group = groups.get(key) ?? { events: [], places: [] }
      groups.set(key, group)
    }
    last = event
    group.events.push(event)
    group.places.push(place)
  }
  return [...groups.values()]
}

const isAlike = (one: NewEvent, other: NewEvent) =>
  one.modelId === other.modelId && one.kind === other.kind && one.version === other.version

/**
 * The values of a group by name.
 *
 * This runs for each value of each event, so it allocates nothing per value or chunk: one pass finds the chunk of each value, a
 * second one puts it to its place there, as a counting sort does.
 *
 * @param count of all values of the group
 * @returns undefined where names have too few values each: they are stored as rows
 */
export function toValueChunks(group: EventGroup, count: number): ValueChunks | undefined {
  const { events } = group
  if (events.length < valuesPerChunkLeast) return undefined
  const { parts, names, sizes, chunkOf } = findChunks(events, count)
  if (count < names.length * valuesPerChunkLeast) return undefined
  const starts = toStarts(sizes)
  const next = starts.slice()
  const indexes = new Uint32Array(count)
  const types = new Uint8Array(count)
  const numbers = new Float64Array(count)
  let texts: string[] | undefined
  let from = 0
  for (let index = 0; index < events.length; index++) {
    for (const { scalars } of (events[index] as NewEvent).parts) {
      for (const name in scalars) {
        const value = scalars[name] as Scalar
        const chunk = chunkOf[from++] as number
        const at = next[chunk] as number
        next[chunk] = at + 1
        if (sizes[chunk] !== events.length) indexes[at] = index
        types[at] = toType(value)
        numbers[at] = toNumber(value)
        const text = toText(value)
        if (text !== '') {
          texts ??= new Array<string>(count).fill('')
          texts[at] = text
        }
      }
    }
  }
  return { group, parts, names, starts, indexes, types, numbers, texts }
}

/** The chunk of each value, in the order of the events, and how many values each has. */
function findChunks(events: readonly NewEvent[], count: number) {
  const parts: number[] = []
  const names: string[] = []
  const sizes: number[] = []
  const chunkOf = new Uint32Array(count)
  const chunksByPart = new Map<number, Map<string, number>>()
  let at = 0
  for (const { parts: eventParts } of events) {
    // Most events have the names of the first one in its order, so most names need no lookup.
    let guess = 0
    for (const { part, scalars } of eventParts) {
      for (const name in scalars) {
        const chunk = names[guess] === name && parts[guess] === part ? guess : findChunk(part, name)
        sizes[chunk] = (sizes[chunk] as number) + 1
        chunkOf[at++] = chunk
        guess = chunk + 1
      }
    }
  }
  return { parts, names, sizes, chunkOf }

  function findChunk(part: number, name: string): number {
    const chunks = chunksByPart.get(part) ?? new Map<string, number>()
    chunksByPart.set(part, chunks)
    const known = chunks.get(name)
    if (known !== undefined) return known
    const chunk = names.push(name) - 1
    parts.push(part)
    sizes.push(0)
    chunks.set(name, chunk)
    return chunk
  }
}

function toStarts(sizes: readonly number[]): Uint32Array {
  const starts = new Uint32Array(sizes.length + 1)
  sizes.forEach((size, chunk) => {
    starts[chunk + 1] = (starts[chunk] as number) + size
  })
  return starts
}

/** Adds the chunks of a group of events to an open block, a row each. */
export function pushValueChunks(
  block: NativeBlock<typeof valueChunksTable>,
  { claim, receivedMs }: { claim: number; receivedMs: number },
  { group, parts, names, starts, indexes, texts, ...values }: ValueChunks,
) {
  const { columns } = block
  const { modelId, kind, version } = group.events[0] as NewEvent
  const allPlaces = Uint32Array.from(group.places)
  const allTimestamps = Float64Array.from(group.events, (it) => it.timestampMs)
  const chunks = names.length
  columns.model_id.fill(modelId, chunks)
  columns.kind.fill(kind, chunks)
  columns.version.fill(version, chunks)
  columns.claim.fill(claim, chunks)
  columns.received.fill(receivedMs, chunks)
  columns.part.pushAll(parts, chunks)
  for (let chunk = 0; chunk < chunks; chunk++) {
    const start = starts[chunk] as number
    const end = starts[chunk + 1] as number
    const count = end - start
    const ofSome = count === group.events.length ? undefined : indexes.subarray(start, end)
    const places = ofSome ? ofSome.map((index) => allPlaces[index] as number) : allPlaces
    const timestamps = ofSome ? Float64Array.from(ofSome, (index) => allTimestamps[index] as number) : allTimestamps
    const types = values.types.subarray(start, end)
    const numbers = values.numbers.subarray(start, end)
    columns.name.push(names[chunk] as string)
    columns.count.push(count)
    columns.first_place.push(places[0] as number)
    columns.timestamp_all.push(timestamps[0] as number)
    columns.type_all.push(types[0] as number)
    if (!areConsecutive(places)) columns.places.items.pushAll(places, count)
    if (!areAll(timestamps, timestamps[0] as number)) columns.timestamps.items.pushAll(timestamps, count)
    if (!areAll(types, types[0] as number)) columns.types.items.pushAll(types, count)
    // -0 is another number than 0.
    if (!areAll(numbers, 0)) columns.numbers.items.pushAll(numbers, count)
    if (texts) pushTexts(columns.texts.items, texts, start, end)
    columns.places.end()
    columns.timestamps.end()
    columns.types.end()
    columns.numbers.end()
    columns.texts.end()
  }
  block.endRows(chunks)
}

function areConsecutive(places: Uint32Array): boolean {
  const first = places[0] as number
  for (let at = 1; at < places.length; at++) if (places[at] !== first + at) return false
  return true
}

function areAll(values: Uint8Array | Float64Array, value: number): boolean {
  for (let at = 0; at < values.length; at++) if (!Object.is(values[at], value)) return false
  return true
}

function pushTexts(items: { push(text: string): void }, texts: readonly string[], start: number, end: number) {
  let at = start
  while (at < end && texts[at] === '') at++
  if (at === end) return
  for (at = start; at < end; at++) items.push(texts[at] as string)
}
