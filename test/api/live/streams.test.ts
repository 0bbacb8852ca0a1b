import { afterAll, beforeAll, expect, it } from 'vitest'
import { toStart } from '../../../api/live/position.ts'
import { createLiveStreams } from '../../../api/live/streams.ts'
import { createClosers } from '../../../runtime/closers.ts'
import { openClickHouse } from '../../../store/clickhouse/connection.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { type Experiment, listExperimentsById } from '../../../store/postgres/experiments/experiments.ts'
import { openTestService, storesWith } from '../../kit/service.ts'

const closers = createClosers()
let experiment: Experiment
let openStreams: (heartbeatMs: number) => ReturnType<typeof createLiveStreams>
const faults: unknown[] = []

beforeAll(async () => {
  const stores = storesWith('postgres')
  const service = await openTestService()
  closers.push(service.close)
  const database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  closers.push(database.close)
  const clickhouse = openClickHouse({ url: stores.clickhouseUrl })
  closers.push(clickhouse.close)
  const key = await service.client.createExperiment()
  const row = await database.row<{ id: bigint }>('SELECT id FROM experiments WHERE key = $1', [key])
  ;[experiment] = (await listExperimentsById(database, [row?.id as bigint])) as [Experiment]
  openStreams = (heartbeatMs) => {
    const streams = createLiveStreams({
      database,
      clickhouse,
      oldestAddedMs: async () => Number.POSITIVE_INFINITY,
      onError: (it) => faults.push(it),
      heartbeatMs,
    })
    closers.push(streams.close)
    return streams
  }
})
afterAll(() => closers.closeAll())

it('a reader who has nothing new to read gets a comment now and then', async () => {
  const { events } = openStreams(50).open(experiment, toStart(Date.now()), async () => true)
  expect((await events.next()).value).toMatch(/^id: .+\nevent: state\ndata: \{/)
  expect((await events.next()).value).toBe(':\n\n')
  expect((await events.next()).value).toBe(':\n\n')
  expect(faults).toEqual([])
})

it('a reader whose right is taken back is let go with the next comment', async () => {
  let mayRead = true
  const { events } = openStreams(1_000).open(experiment, toStart(Date.now()), async () => mayRead)
  await events.next()
  mayRead = false
  const rest = []
  for await (const it of events) rest.push(it)
  expect(rest).toEqual([':\n\n'])
})

it('readers that leave or are closed end, and those that come after are refused', async () => {
  const streams = openStreams(60_000)
  const open = () => streams.open(experiment, toStart(Date.now()), async () => true)
  const [left, closed] = [open(), open()]
  for (const it of [left, closed]) await it.events.next()
  const ends = [left, closed].map((it) => it.events.next())
  left.leave()
  expect(await ends[0]).toEqual({ done: true, value: undefined })
  await streams.close()
  expect(await ends[1]).toEqual({ done: true, value: undefined })
  expect(open).toThrow(/^This process is stopping/)
})
