import { once } from 'node:events'
import http from 'node:http'

/**
 * Events as production sends them: 20 features (floats, integers, categories, booleans, a string of many values) and a
 * prediction. The bodies of some batches are made before the clock starts; of each request only the ids are written anew,
 * so that making the load costs next to nothing.
 */
export const featuresPerEvent = 20
/** With the two of the prediction. */
export const valuesPerEvent = featuresPerEvent + 2
const templates = 24
const idCharacters = 36
/** Every hundredth event has an id that was sent before, and another content. */
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

/** How many different ids a load of so many events has. */
export const distinctIds = (events: number) => events - Math.floor(events / repeatedEvery)

/** Sends all events, some requests at a time, and resolves when all were answered. */
export async function sendEvents(load: Load): Promise<LoadResult> {
  const bodies = Array.from({ length: templates }, (_, at) => makeBody(load, at))
  const agent = new http.Agent({ keepAlive: true, maxSockets: load.connections })
  const requests = Math.ceil(load.events / load.eventsPerRequest)
  const result: LoadResult = { accepted: 0, duplicates: 0, bytesSent: 0, answeredMs: [] }
  let next = 0

  async function sendSome() {
    while (next < requests) {
      const at = next++
      const body = writeIds(bodies[at % templates] as Body, at * load.eventsPerRequest)
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

type Body = { bytes: Buffer; idOffsets: number[] }

function makeBody({ workspaceName, modelName, eventsPerRequest }: Load, template: number): Body {
  const placeholder = 'x'.repeat(idCharacters)
  const events = Array.from({ length: eventsPerRequest }, (_, at) => {
    const random = createRandom(template * eventsPerRequest + at + 1)
    const features: Record<string, number | string | boolean> = {}
    for (let feature = 0; feature < 8; feature++)
      features[`amount_${feature}`] = round(random() * 10 ** (feature % 4), 4)
    for (let feature = 0; feature < 5; feature++)
      features[`count_${feature}`] = Math.floor(random() * 10 ** (feature + 1))
    for (let feature = 0; feature < 4; feature++) {
      features[`category_${feature}`] = `class ${Math.floor(random() ** 2 * 5 ** (feature + 1))}`
    }
    for (let feature = 0; feature < 2; feature++) features[`flag_${feature}`] = random() < 0.3
    features.merchant = `merchant-${Math.floor(random() * 50_000)}`
    return {
      workspaceName,
      modelName,
      modelVersion: '1.4.0',
      predictionId: placeholder,
      timestamp: 1_760_000_000_000 + template * 60_000 + at,
      features,
      prediction: { value: random() < 0.1 ? 'fraud' : 'ok', probability: round(random(), 4) },
    }
  })
  const bytes = Buffer.from(JSON.stringify({ data: events }))
  const idOffsets: number[] = []
  for (let at = bytes.indexOf(placeholder); at >= 0; at = bytes.indexOf(placeholder, at + idCharacters))
    idOffsets.push(at)
  return { bytes, idOffsets }
}

/** A copy, for the one before may still be on its way. */
function writeIds({ bytes, idOffsets }: Body, first: number): Buffer {
  const body = Buffer.from(bytes)
  idOffsets.forEach((offset, at) => {
    const number = first + at
    body.write(toId((number + 1) % repeatedEvery === 0 ? number - 50 : number), offset, 'latin1')
  })
  return body
}

/** As random as a UUID, and the same for the same number. */
function toId(number: number): string {
  const random = createRandom(number + 1_000_003)
  const hex = Array.from({ length: 4 }, () =>
    Math.floor(random() * 2 ** 32)
      .toString(16)
      .padStart(8, '0'),
  ).join('')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

const round = (value: number, digits: number) => Math.round(value * 10 ** digits) / 10 ** digits

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
