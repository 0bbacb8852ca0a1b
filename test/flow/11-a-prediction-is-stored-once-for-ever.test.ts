import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { type Database, openDatabase } from '../../store/postgres/database.ts'
import { openQueueBackend } from '../../store/queue/open-queue.ts'
import { readStoredEvents } from '../kit/clients/monitoring.ts'
import { eventually } from '../kit/eventually.ts'
import { inForm, queuesInForm } from '../kit/form.ts'
import { createClient, type TestClient } from '../kit/http/client.ts'
import { superviseRole } from '../kit/processes/supervised-role.ts'
import { createUser, openOwnStores, uniqueName } from '../kit/service.ts'

/**
 * Of all events that come with one prediction id exactly one is stored, and it is the one that was acknowledged: through two
 * processes that take events at the same time, and with both of them, and the worker, killed while clients go on sending.
 * `EVENT_TEST_KILLS=50` kills more of them, `EVENT_TEST_EVENTS` sends more.
 */
const kills = Number(process.env.EVENT_TEST_KILLS ?? inForm({ short: 2, middle: 3, long: 50 }))
const eventsMin = Number(process.env.EVENT_TEST_EVENTS ?? inForm({ short: 2_000, middle: 3_000, long: 40_000 }))
const eventsPerBatch = 50
const writers = 8
/** Each id is sent by so many writers, each with a content of its own. */
const rivals = 3
const killEveryMs = 1_200
const retryPauseMs = 60

const closers = createClosers()
afterAll(() => closers.closeAll())

type Cluster = Awaited<ReturnType<typeof startCluster>>

async function startCluster(queue: 'postgres' | 'redis') {
  const stores = await openOwnStores(queue)
  const prefix = uniqueName('flow')
  const shared = { SVC_QUEUE_PREFIX: prefix, SVC_LOG_LEVEL: 'error', SVC_EVENT_LEASE_MS: '1500' }
  const start = (role: 'ingest' | 'worker' | 'api') => superviseRole({ role, stores, settings: shared, closers })
  const [one, two, worker, api] = await Promise.all([start('ingest'), start('ingest'), start('worker'), start('api')])
  const user = await createUser(stores)
  const database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  closers.push(() => database.close())
  const backend = openQueueBackend({ ...stores, prefix, onError: () => undefined })
  closers.push(() => backend.close())
  const producers = await Array.fromAsync(
    ['events', 'eventValues', 'eventValueChunks', 'voidedEvents'] as const,
    (name) => backend.openProducer(name),
  )
  return {
    async queueDepth() {
      const loads = await Promise.all(producers.map((it) => it.load()))
      return loads.reduce((sum, it) => sum + it.blocks, 0)
    },
    stores,
    ingests: [one, two],
    worker,
    database,
    writers: [one, two].map((it) => createClient(it.url, user)),
    reader: createClient(api.url, user),
    workspaceName: user.workspaceName,
  }
}

type Sent = { status: number; accepted: number; duplicates: number; rejected: number }

async function sendOnce(client: TestClient, data: unknown[]): Promise<Sent | undefined> {
  const answer = await client.post('/mpm/v2/events/batch', { data }).catch(() => undefined)
  return answer && ({ status: answer.status, ...answer.body } as Sent)
}

async function findModel(database: Database, name: string): Promise<bigint> {
  const row = await database.row<{ id: bigint }>('SELECT id FROM monitored_models WHERE name = $1', [name])
  return row?.id as bigint
}

/** Waits until nothing is on its way any more: then what is stored is all there will be. */
async function readSettled({ stores, database, queueDepth }: Cluster, modelId: bigint, events: number) {
  await eventually(
    async () => {
      const stored = await readStoredEvents(stores.clickhouseUrl, modelId)
      const whole = stored.filter((it) => it.values.length === 2)
      if (whole.length < events) throw new Error(`${whole.length} of ${events} events are there`)
    },
    90_000,
    500,
  )
  // A process that was killed may have left blocks in the queue, and tombstones to be sent.
  await eventually(
    async () => {
      const unsent = await database.rows('SELECT 1 FROM untold_voids')
      const waiting = await queueDepth()
      if (unsent.length + waiting > 0) throw new Error(`${unsent.length} tombstones and ${waiting} blocks wait`)
    },
    90_000,
    500,
  )
  return await readStoredEvents(stores.clickhouseUrl, modelId)
}

describe.each(queuesInForm())('with the queue in %s', (queue) => {
  let cluster: Cluster
  beforeAll(async () => {
    cluster = await startCluster(queue)
  })

  it('many requests with one id and different contents, to two processes: one is accepted, and that one is read', async () => {
    const { writers, database, workspaceName } = cluster
    const modelName = 'contended'
    const ids = 40
    const requests = Array.from({ length: 48 }, (_, writer) =>
      sendOnce(
        writers[writer % 2] as TestClient,
        Array.from({ length: ids }, (_, at) => ({
          workspaceName,
          modelName,
          predictionId: `id-${(at * (2 * (writer % 10) + 1)) % ids}`,
          features: { writer, copy: writer },
        })),
      ),
    )
    const answers = await Promise.all(requests)
    expect(answers.map((it) => it?.status)).toEqual(answers.map(() => 200))
    expect(answers.map((it) => (it?.accepted ?? 0) + (it?.duplicates ?? 0))).toEqual(answers.map(() => ids))
    const distinct = new Set(
      Array.from({ length: 10 }, (_, k) => Array.from({ length: ids }, (_, at) => (at * (2 * k + 1)) % ids)).flat(),
    )
    const stored = await readSettled(cluster, await findModel(database, modelName), distinct.size)
    expect(stored.map((it) => it.predictionId).toSorted()).toEqual([...distinct].map((it) => `id-${it}`).toSorted())
    const kept = new Map<number, number>()
    for (const { values } of stored) {
      const [copy, writer] = values.map((it) => Number(it.split(' ')[3]))
      expect(copy).toBe(writer)
      kept.set(writer as number, (kept.get(writer as number) ?? 0) + 1)
    }
    // Exactly those that were told to be accepted, by exactly the request that was told.
    expect(answers.map((_, writer) => kept.get(writer) ?? 0)).toEqual(answers.map((it) => it?.accepted))
  })

  it(`${kills} kills while clients send and send again: each id is there once, with the content that was accepted`, async () => {
    const { ingests, worker, database, workspaceName } = cluster
    const modelName = 'killed'
    const unexpected = new Set<number>()
    /** The content of each id that some request was told to have been the first with. */
    const accepted = new Map<string, number>()
    const sentIds = new Set<string>()
    let isOver = false

    async function killAll() {
      const victims = [ingests[0], worker, ingests[1]] as { restart(signal: NodeJS.Signals): Promise<unknown> }[]
      for (let kill = 0; kill < kills; kill++) {
        await sleep(killEveryMs)
        const all = kill % 4 === 3 ? victims : [victims[kill % 3] as (typeof victims)[number]]
        await Promise.all(all.map((it) => it.restart('SIGKILL')))
      }
      isOver = true
    }

    /** One writer: batches of ids that others send as well, each until it is answered. */
    async function write(writer: number) {
      for (let batch = 0; !isOver || sentIds.size < eventsMin; batch++) {
        const group = Math.floor(writer / rivals)
        const data = Array.from({ length: eventsPerBatch }, (_, at) => {
          const predictionId = `${group}-${batch}-${at}`
          sentIds.add(predictionId)
          return { workspaceName, modelName, predictionId, features: { writer, copy: writer } }
        })
        // One by one events are told apart: only then an answer tells of which id it is.
        await sendUntilAnswered(writer, batch % 2 === 0 ? [data] : data.slice(0, 8).map((it) => [it]), data)
      }
    }

    async function sendUntilAnswered(
      writer: number,
      parts: { predictionId: string }[][],
      all: { predictionId: string }[],
    ) {
      const left = parts.length === 1 ? parts : [...parts, all.slice(parts.length)]
      await Promise.all(left.map((part) => sendPart(writer, part)))
    }

    async function sendPart(writer: number, part: { predictionId: string }[]) {
      for (let attempt = 0; ; attempt++) {
        const answer = await sendOnce(cluster.writers[(writer + attempt) % 2] as TestClient, part)
        if (answer?.status === 200) {
          expect(answer.accepted + answer.duplicates).toBe(part.length)
          if (answer.accepted === part.length) for (const { predictionId } of part) noteAccepted(predictionId, writer)
          return
        }
        if (answer && answer.status !== 503) unexpected.add(answer.status)
        await sleep(retryPauseMs)
      }
    }

    const twice: string[] = []
    function noteAccepted(predictionId: string, writer: number) {
      if (accepted.has(predictionId)) twice.push(predictionId)
      accepted.set(predictionId, writer)
    }

    await Promise.all([killAll(), ...Array.from({ length: writers }, (_, writer) => write(writer))])

    expect([...unexpected]).toEqual([])
    expect(twice).toEqual([])
    const stored = await readSettled(cluster, await findModel(database, modelName), sentIds.size)
    const ids = stored.map((it) => it.predictionId)
    expect({ events: ids.length, distinct: new Set(ids).size }).toEqual({
      events: sentIds.size,
      distinct: sentIds.size,
    })
    const torn = stored.filter(
      ({ values }) => values.length !== 2 || new Set(values.map((it) => it.split(' ')[3])).size !== 1,
    )
    expect(torn).toEqual([])
    const content = new Map(stored.map((it) => [it.predictionId, Number(it.values[0]?.split(' ')[3])]))
    expect([...accepted].filter(([id, writer]) => content.get(id) !== writer)).toEqual([])
    expect(accepted.size).toBeGreaterThan(0)
    const open = await database.rows('SELECT 1 FROM untold_voids')
    expect(open).toEqual([])
    const taken = await database.row<{ given_up: bigint }>(
      'SELECT count(*) AS given_up FROM open_claims WHERE is_given_up',
    )
    console.log(
      `${queue}: ${kills} kills, ${sentIds.size} ids, ${accepted.size} known to be accepted, ${taken?.given_up} claims given up`,
    )
  })
})
