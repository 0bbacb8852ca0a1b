import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { deleteExperimentRows } from '../../store/clickhouse/deletions.ts'
import { streamTables, summaryTable } from '../../store/clickhouse/tables.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { deleteExperiments, listDeletedBefore } from '../../store/postgres/experiments.ts'
import { createRetention } from '../../workers/retention.ts'
import { aPoint } from '../harness/builders.ts'
import { openTestService } from '../harness/service.ts'

const clickhouse = openClickHouse({ url: inject('stores').clickhouseUrl })
const database = openDatabase({ url: inject('stores').postgresUrl, onError: () => undefined })
let service: Awaited<ReturnType<typeof openTestService>>
beforeAll(async () => {
  service = await openTestService()
})
afterAll(async () => {
  await service?.close()
  await Promise.all([clickhouse.close(), database.close()])
})

const hourMs = 3_600_000

/** An experiment with something of everything, whose rows can be read. */
async function aFullExperiment() {
  const { client } = service
  const experimentKey = await client.createExperiment()
  const write = async (name: string, body: object) => {
    expect((await client.post(`/write/experiment/${name}`, { experimentKey, ...body })).status).toBe(200)
  }
  await write('metric', aPoint())
  await write('load-metrics', { loadAverage: 1 })
  await write('output', { outputLines: [{ output: 'line' }] })
  await write('parameter', { parameterName: 'a', parameterValue: 1 })
  await write('tags', { addedTags: ['a'] })
  await write('html', { html: 'a' })
  await client.readPoints(experimentKey, 'loss', 1)
  await client.readPoints(experimentKey, 'sys.load.average', 1)
  const row = await database.row<{ id: bigint }>('SELECT id FROM experiments WHERE key = $1', [experimentKey])
  const id = (row as { id: bigint }).id
  await expect.poll(() => countRows(id)).toEqual([1, 1, 1, 1])
  return { experimentKey, id }
}

const countRows = (id: bigint) =>
  Promise.all(
    [...streamTables.map((it) => it.name), summaryTable].map(async (table) => {
      const [row] = await clickhouse.rows<{ rows: string }>(
        `SELECT count() AS rows FROM ${clickhouse.database}.${table} WHERE experiment_id = ${id}`,
      )
      return Number(row?.rows)
    }),
  )

const countRelated = async (id: bigint) => {
  const tables = ['experiment_values', 'experiment_tags', 'experiment_documents', 'experiment_counters']
  const counts = tables.map((table) =>
    database.row<{ rows: bigint }>(`SELECT count(*) AS rows FROM ${table} WHERE experiment_id = $1`, [id]),
  )
  return (await Promise.all(counts)).map((it) => Number(it?.rows))
}

function openRetention(ids: bigint[], keptForMs: number) {
  return createRetention({
    // Only what this test made: others delete experiments, too.
    listDeletedBefore: async (timeMs) =>
      (await listDeletedBefore(database, timeMs, 1_000)).filter((it) => ids.includes(it)),
    deleteRows: (experimentIds) => deleteExperimentRows(clickhouse, experimentIds),
    deleteExperiments: (experimentIds) => deleteExperiments(database, experimentIds),
    keptForMs,
    everyMs: hourMs,
    onError: () => undefined,
  })
}

it('an experiment whose time to be restored has passed is gone everywhere; all others stay as they are', async () => {
  const [expired, recent, kept] = [await aFullExperiment(), await aFullExperiment(), await aFullExperiment()]
  for (const { experimentKey } of [expired, recent]) {
    await service.client.get(`/write/experiment/delete?experimentKey=${experimentKey}`)
  }
  await database.row(`UPDATE experiments SET deleted_at = now() - interval '2 hours' WHERE id = $1`, [expired.id])

  const retention = openRetention([expired.id, recent.id, kept.id], hourMs)
  await retention.sweep()
  await retention.close()

  expect(await countRows(expired.id)).toEqual([0, 0, 0, 0])
  expect(await countRelated(expired.id)).toEqual([0, 0, 0, 0])
  const restore = await service.client.get(`/write/experiment/restore?experimentKey=${expired.experimentKey}`)
  expect([restore.status, restore.body.sdk_error_code]).toEqual([400, 90211])
  for (const { id } of [recent, kept]) expect(await countRows(id)).toEqual([1, 1, 1, 1])
  await service.client.get(`/write/experiment/restore?experimentKey=${recent.experimentKey}`)
  expect(await service.client.readMetric(recent.experimentKey, 'loss')).toHaveLength(1)
})

it('a sweep that ends half-way is taken up again, and one that finds nothing asks for nothing', async () => {
  const deeds: string[] = []
  let left = [1n, 2n]
  let isAway = true
  const retention = createRetention({
    listDeletedBefore: async () => left,
    async deleteRows(ids) {
      deeds.push(`rows ${ids}`)
      if (isAway) throw new Error('away')
    },
    async deleteExperiments(ids) {
      deeds.push(`experiments ${ids}`)
      left = []
    },
    keptForMs: 0,
    everyMs: hourMs,
    onError: () => undefined,
  })
  await expect(retention.sweep()).rejects.toThrow('away')
  isAway = false
  await retention.sweep()
  await retention.sweep()
  expect(deeds).toEqual(['rows 1,2', 'rows 1,2', 'experiments 1,2'])
})

it('sweeps by itself, and goes on after a sweep that failed', async () => {
  let left = [1n]
  const errors: unknown[] = []
  const retention = createRetention({
    listDeletedBefore: async () => left,
    async deleteRows() {
      if (errors.length < 2) throw new Error('away')
    },
    async deleteExperiments() {
      left = []
    },
    keptForMs: 0,
    everyMs: 5,
    onError: (error) => errors.push(error),
  })
  await expect.poll(() => left).toEqual([])
  expect(errors).toHaveLength(2)
  await retention.close()
})
