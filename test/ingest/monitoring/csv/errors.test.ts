import { once } from 'node:events'
import { request } from 'node:http'
import { Readable } from 'node:stream'
import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../../../runtime/closers.ts'
import { openDatabase } from '../../../../store/postgres/database.ts'
import { readStoredEvents } from '../../../kit/clients/monitoring.ts'
import { eventually } from '../../../kit/eventually.ts'
import { form, inForm } from '../../../kit/form.ts'
import { createClient } from '../../../kit/http/client.ts'
import { startRole } from '../../../kit/processes/svc.ts'
import { readMemory } from '../../../kit/processes/usage.ts'
import {
  availableQueues,
  createUser,
  openOwnStores,
  openTestService,
  storesWith,
  uniqueName,
} from '../../../kit/service.ts'

const mebibyte = 1024 * 1024
/** What is held of a file shows at any size above the bound. `CSV_TEST_MIB=2048` is nearer to the promise. */
const fileBytes = Number(process.env.CSV_TEST_MIB ?? inForm({ short: 512, middle: 512, long: 2048 })) * mebibyte
/** Enough for a process to have most of what it will ever take: what V8 lets lie until it collects. */
const warmBytes = 96 * mebibyte
/** Half of the file: what V8 lets lie varies by 100 MiB and more, and does not grow with the file. */
const growthBytesMax = 256 * mebibyte

const closers = createClosers()
afterEach(() => closers.closeAll())

type Answer = { status: number; lines: Record<string, unknown>[] }

/** Sends a file as it is made, and reads the answer to its end. */
async function upload(url: string, apiKey: string, query: Record<string, string>, file: Readable): Promise<Answer> {
  const sending = request(`${url}/mpm/v2/data/events/csv?${new URLSearchParams(query)}`, {
    method: 'POST',
    headers: { authorization: apiKey, 'content-type': 'text/csv' },
  })
  const answered = once(sending, 'response')
  file.pipe(sending)
  const [answer] = await answered
  let text = ''
  for await (const chunk of answer) text += chunk
  return {
    status: answer.statusCode,
    lines: text
      .trim()
      .split('\n')
      .map((it) => JSON.parse(it)),
  }
}

// It takes ten seconds: a smaller file would not show whether it is held.
it.skipIf(form === 'short')(
  'a large file takes no more memory than a small one, and every line of it is counted',
  async (context) => {
    const stores = await openOwnStores(availableQueues().at(-1) as 'postgres')
    const user = await createUser(stores)
    const settings = { SVC_EVENTS_PER_MINUTE: '100000000', SVC_QUEUE_PREFIX: uniqueName('csv') }
    const [ingest, worker] = [await startRole('ingest', stores, settings), await startRole('worker', stores, settings)]
    for (const it of [ingest, worker]) {
      closers.push(async () => {
        it.kill('SIGKILL')
        await it.ended
      })
    }
    const query = { workspaceName: user.workspaceName, modelName: 'large', modelVersion: '1' }
    await upload(ingest.url, user.apiKey, { ...query, modelName: 'warm' }, Readable.from(makeFile(warmBytes).chunks()))
    const before = await readMemory(ingest.pid)
    if (!before) return context.skip('there is no /proc here: memory cannot be measured')
    const file = makeFile(fileBytes)
    const startedAt = performance.now()
    const { status, lines } = await upload(ingest.url, user.apiKey, query, Readable.from(file.chunks()))
    const seconds = (performance.now() - startedAt) / 1_000
    const growth = ((await readMemory(ingest.pid))?.peak ?? 0) - before.peak
    console.log(
      `${fileBytes / mebibyte} MiB, ${file.lines()} lines in ${seconds.toFixed(1)} s; at most ` +
        `${Math.round(before.peak / mebibyte)} MiB before, ${Math.round(growth / mebibyte)} MiB more; ${lines.length} lines told`,
    )
    expect(status).toBe(200)
    expect(lines.at(-1)).toMatchObject({
      code: 200,
      done: true,
      lines: file.lines(),
      accepted: file.lines(),
      rejected: 0,
    })
    expect(growth).toBeLessThan(growthBytesMax)
  },
  7_200_000,
)

function makeFile(bytes: number) {
  // Long values: it is bytes that might be held, and numbers take a worker several times as long.
  const text = 'c, '.repeat(2_500)
  let lines = 0
  return {
    lines: () => lines,
    *chunks() {
      yield 'predictionId,feature_a,feature_b,feature_c\n'
      for (let made = 0; made < bytes; ) {
        const part: string[] = []
        for (let line = 0; line < 200; line++) {
          part.push(`id-${lines},${lines % 9_973},${(lines / 7).toFixed(4)},"${lines % 50} ${text}"\n`)
          lines++
        }
        const chunk = part.join('')
        made += chunk.length
        yield chunk
      }
    },
  }
}

it('a file that is interrupted and sent again is stored once', async () => {
  const stores = storesWith('postgres')
  const service = await openTestService({ stores })
  closers.push(service.close)
  const modelName = uniqueName('model')
  const query = { workspaceName: service.workspaceName, modelName }
  const lines = Array.from({ length: 12_000 }, (_, at) => `${at % 13},"x ${at}"\n`)
  const text = `feature_a,feature_b\n${lines.join('')}`

  const sending = request(`${service.url}/mpm/v2/data/events/csv?${new URLSearchParams(query)}`, {
    method: 'POST',
    headers: { authorization: service.apiKey, 'content-type': 'text/csv', 'content-length': text.length + 1_500_000 },
  })
  sending.on('error', () => undefined)
  // More than is held until the fields are known, and then nothing more.
  sending.write(text.slice(0, 100_000) + '\n'.repeat(1_100_000))
  const database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  closers.push(() => database.close())
  const modelId = await eventually(async () => {
    const row = await database.row<{ id: bigint }>(
      'SELECT model_id AS id FROM event_claims c JOIN monitored_models m ON m.id = c.model_id WHERE m.name = $1 LIMIT 1',
      [modelName],
    )
    if (!row) throw new Error('nothing was stored yet')
    return row.id
  })
  sending.destroy()

  const { lines: told } = await upload(service.url, service.apiKey, query, Readable.from([text]))
  const last = told.at(-1) as { accepted: number; duplicates: number }
  expect(last).toMatchObject({ code: 200, lines: 12_000, rejected: 0 })
  expect(last.duplicates).toBeGreaterThan(0)
  expect(last.accepted + last.duplicates).toBe(12_000)
  const stored = await eventually(async () => {
    const events = await readStoredEvents(stores.clickhouseUrl, modelId)
    if (events.length < 12_000 || events.some((it) => it.values.length < 2)) throw new Error('not all are there yet')
    return events
  })
  expect(stored).toHaveLength(12_000)
  expect(new Set(stored.map((it) => it.values[1])).size).toBe(12_000)
})

it('a file over the rate of its model is slowed down, not rejected', async () => {
  const stores = storesWith('postgres')
  const service = await openTestService({ stores, settings: { SVC_EVENTS_PER_MINUTE: '6000' } })
  closers.push(service.close)
  const query = { workspaceName: service.workspaceName, modelName: uniqueName('slow') }
  const text = `predictionId,feature_a\n${Array.from({ length: 6_100 }, (_, at) => `${at},1`).join('\n')}`
  const { lines } = await upload(service.url, service.apiKey, query, Readable.from([text]))
  expect(lines.at(-1)).toMatchObject({ code: 200, accepted: 6_100, rejected: 0 })
})

it('a file waits while the queue is full, and then continues', async () => {
  const stores = await openOwnStores('postgres')
  const settings = { SVC_QUEUE_BLOCKS_MAX: '1' }
  const ingest = await openTestService({ stores, settings, roles: new Set(['ingest']) })
  closers.push(ingest.close)
  const query = { workspaceName: ingest.workspaceName, modelName: 'model' }
  const client = createClient(ingest.url, ingest)
  // Without a worker the queue fills, and then writes are refused.
  const event = (predictionId: string) => ({ ...query, predictionId, features: { a: 1 } })
  await eventually(async () => {
    const { status } = await client.post('/mpm/v2/events/batch', { data: [event(String(Math.random()))] })
    expect(status).toBe(503)
  })
  const text = 'predictionId,feature_a\na,1\nb,2\n'
  const uploading = upload(ingest.url, ingest.apiKey, query, Readable.from([text]))
  const worker = await openTestService({ stores, roles: new Set(['worker']) })
  closers.push(worker.close)
  const { lines } = await uploading
  expect(lines.at(-1)).toMatchObject({ code: 200, accepted: 2 })
})
