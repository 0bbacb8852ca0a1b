import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import { svc } from '../kit/processes/svc.ts'
import { openOwnStores, openTestService } from '../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())
const onClose = (close: () => unknown) => closers.push(async () => close())

/** Runs `svc dead-letters` to its end. */
async function run(environment: Record<string, string>, ...words: string[]) {
  const { code, stdout, stderr } = await svc(['dead-letters', ...words], environment, onClose)
  return { code, output: stdout + stderr }
}

it('a refused row is listed, shown, replayed once its reason is gone, and gone from the list', async () => {
  const stores = await openOwnStores('postgres')
  const environment = { CLICKHOUSE_URL: stores.clickhouseUrl, POSTGRES_URL: stores.postgresUrl }
  const clickhouse = openClickHouse({ url: stores.clickhouseUrl })
  closers.push(() => clickhouse.close())
  const constrain = (change: string) => clickhouse.command(`ALTER TABLE ${clickhouse.database}.points ${change}`)
  await constrain('ADD CONSTRAINT no_thirteens CHECK reinterpretAsFloat64(value_bits) != 13')
  const service = await openTestService({ stores })
  closers.push(service.close)
  const experimentKey = await service.client.createExperiment()
  const metrics = [12, 13, 14].map((step) => aPoint({ step, metricValue: step }))
  await service.client.post('/write/experiment/metrics/batch', { experimentKey, metrics })

  const [letter] = await eventually(async () => {
    const { output } = await run(environment, 'list', '--json')
    const letters = JSON.parse(output) as { id: string; reason: string; rows: number }[]
    expect(letters).toHaveLength(1)
    return letters
  })
  const id = letter?.id as string
  expect((await run(environment, 'list')).output).toMatch(new RegExp(`^${id} .*metrics .*no_thirteens`))
  const shown = await run(environment, 'show', id)
  expect(shown.output).toContain('"value":13')

  // Replayed too early it is refused again, and comes back.
  await run(environment, 'replay', id)
  const again = await eventually(async () => {
    const letters = JSON.parse((await run(environment, 'list', '--json')).output) as { id: string }[]
    expect(letters.map((it) => it.id)).not.toEqual([id])
    expect(letters).toHaveLength(1)
    return letters[0]?.id as string
  })
  await constrain('DROP CONSTRAINT no_thirteens')
  expect(await run(environment, 'replay', 'all')).toMatchObject({ code: 0 })
  const points = await service.client.readPoints(experimentKey, 'loss', 3)
  expect(points.map((it) => it.metricValue)).toEqual(['12.0', '13.0', '14.0'])
  expect((await run(environment, 'list')).output).toBe('There are no dead letters.\n')
  expect(await run(environment, 'discard', again)).toMatchObject({
    code: 1,
    output: expect.stringContaining('no dead letter'),
  })
  expect(await run(environment, 'shred')).toMatchObject({ code: 1, output: expect.stringContaining('Usage:') })
})
