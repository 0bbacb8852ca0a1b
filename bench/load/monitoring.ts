import { once } from 'node:events'
import http from 'node:http'

/**
 * Events as production sends them: 20 features (floats, integers, categories, booleans, a string with many values) and a
 * prediction. The bodies of some batches are prepared before the clock starts. Ids, times and digits are overwritten for
 * each request, so the generator needs little CPU and no two events are equal.
 */
export const featuresPerEvent = 20
/** With the two of the prediction. */
export const valuesPerEvent = featuresPerEvent + 2
const templates = 24
const idCharacters = 36
/** Every hundredth event repeats an earlier id with other content. */
const repeatedEvery = 100

type Load = {
  url: string
  apiKey: string
  workspaceName: string
  modelName: string
  events: number
  eventsPerRequest: number
  connections: number
}

export type LoadResult = { accepted: number; duplicates: number; bytesSent: number; answeredMs: number[] }

/** The number of distinct ids in a load of this many events. */
export const distinctIds = (events: number) => events - Math.floor(events / repeatedEvery)

/** Sends all events with several concurrent requests. Resolves when all were answered. */
export async function sendEvents(load: Load): Promise<LoadResult> {
  const bodies = Array.from({ length: templates }, (_, at) => makeBody(load, at))
  const agent = new http.Agent({ keepAlive: true, maxSockets: load.connections })
  const requests = Math.ceil(load.events / load.eventsPerRequest)
  const result: LoadResult = { accepted: 0, duplicates: 0, bytesSent: 0, answeredMs: [] }
  let next = 0

  async function sendSome() {
    while (next < requests) {
      const at = next++
      const body = fillIn(bodies[at % templates] as Body, at * load.eventsPerRequest)
      const startedAt = performance.now()
      const answer = await post(load, agent, body)
      result.answeredMs.push(performance.now() - startedAt)
      result.accepted += answer.accepted
      result.duplicates += answer.duplicates
      result.bytesSent += body.length
    }
  }

  await Promise.all(Array.from({ length: load.connections }, sendSome))
  agent.destroy()
  return result
}

async function post({ url, apiKey }: Load, agent: http.Agent, body: Buffer) {
  const sending = http.request(`${url}/mpm/v2/events/batch`, {
    agent,
    method: 'POST',
    headers: { authorization: apiKey, 'content-type': 'application/json', 'content-length': body.length },
  })
  sending.end(body)
  const [answer] = (await once(sending, 'response')) as [http.IncomingMessage]
  const chunks = await answer.toArray()
  const text = Buffer.concat(chunks).toString()
  if (answer.statusCode !== 200) throw new Error(`events/batch answered ${answer.statusCode}: ${text.slice(0, 500)}`)
  const { accepted, duplicates, rejected } = JSON.parse(text) as Record<string, number>
  if (rejected !== 0) throw new Error(`events were rejected: ${text.slice(0, 500)}`)
  return { accepted: accepted as number, duplicates: duplicates as number }
}

type Body = { bytes: Buffer; idOffsets: number[]; timeOffsets: number[]; digitOffsets: number[] }

/** Each `#` is replaced by a digit in every request. */
function makeBody({ workspaceName, modelName, eventsPerRequest }: Load, template: number): Body {
  const range = (length: number, of: (at: number) => string) => Array.from({ length }, (_, at) => of(at))
  const events = range(eventsPerRequest, (at) => {
    const random = createRandom(template * eventsPerRequest + at + 1)
    const first = () => 1 + Math.floor(random() * 9)
    const features = [
      ...range(8, (it) => `"amount_${it}":${first()}${'#'.repeat(it % 4)}.###${first()}`),
      ...range(5, (it) => `"count_${it}":${first()}${'#'.repeat(it)}`),
      ...range(4, (it) => `"category_${it}":"class ${Math.floor(random() ** 2 * 5 ** (it + 1))}"`),
      ...range(2, (it) => `"flag_${it}":${random() < 0.3}`),
      '"merchant":"merchant-#####"',
    ]
    return (
      `{"workspaceName":"${workspaceName}","modelName":"${modelName}","modelVersion":"1.4.0",` +
      `"predictionId":"${idPlaceholder}","timestamp":${timePlaceholder},"features":{${features.join()}},` +
      `"prediction":{"value":"${random() < 0.1 ? 'fraud' : 'ok'}","probability":0.###${first()}}}`
    )
  })
  const bytes = Buffer.from(`{"data":[${events.join()}]}`)
  return {
    bytes,
    idOffsets: findAll(bytes, idPlaceholder),
    timeOffsets: findAll(bytes, timePlaceholder),
    digitOffsets: findAll(bytes, '#'),
  }
}

const idPlaceholder = 'x'.repeat(idCharacters)
const timePlaceholder = 't'.repeat(13)
const firstTimeMs = 1_760_000_000_000
const eventEveryMs = 10

function findAll(bytes: Buffer, what: string): number[] {
  const offsets: number[] = []
  for (let at = bytes.indexOf(what); at >= 0; at = bytes.indexOf(what, at + what.length)) offsets.push(at)
  return offsets
}

/** A copy, because the previous one may still be in flight. */
function fillIn({ bytes, idOffsets, timeOffsets, digitOffsets }: Body, first: number): Buffer {
  const body = Buffer.from(bytes)
  idOffsets.forEach((offset, at) => {
    const number = first + at
    body.write(toId((number + 1) % repeatedEvery === 0 ? number - 50 : number), offset, 'latin1')
  })
  timeOffsets.forEach((offset, at) => {
    body.write(String(firstTimeMs + (first + at) * eventEveryMs), offset, 'latin1')
  })
  const random = createRandom(first + 7)
  for (const offset of digitOffsets) body[offset] = 0x30 + Math.floor(random() * 10)
  return body
}

/** Looks as random as a UUID, but the same number always gives the same id. */
function toId(number: number): string {
  const random = createRandom(number + 1_000_003)
  const hex = Array.from({ length: 4 }, () =>
    Math.floor(random() * 2 ** 32)
      .toString(16)
      .padStart(8, '0'),
  ).join('')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/** mulberry32 */
function createRandom(seed: number) {
  let state = Math.imul(seed, 0x9e3779b1) >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
