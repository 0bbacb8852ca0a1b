import { randomUUID } from 'node:crypto'
import { afterAll, expect, it } from 'vitest'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { createTenants } from '../../throttle/tenants.ts'
import { eventually } from '../kit/eventually.ts'
import { storesWith } from '../kit/service.ts'

const { clickhouseUrl } = storesWith('postgres')
const tenants = createTenants({
  find: async () => ({ workspace: {}, organization: {} }),
  defaults: { workspace: { queriesMax: 1 }, organization: {} },
  onRefused: () => undefined,
  onError: (error) => {
    throw error
  },
})
const clickhouse = openClickHouse({ url: clickhouseUrl, admit: tenants.query })
const operator = openClickHouse({ url: clickhouseUrl })
afterAll(() => Promise.all([clickhouse.close(), operator.close()]))

const as = <T>(workspaceName: string, work: () => T) =>
  tenants.within({ organizationId: 'organization', userId: 'user' }, () => {
    tenants.note(workspaceName)
    return work()
  })

it('while a query of a workspace runs in ClickHouse and others of it wait, those of another workspace are answered', async () => {
  const mark = randomUUID()
  const isMarked = `query LIKE '%greedy ${mark}%' AND query NOT LIKE '%system.processes%'`
  const ofMark = async () =>
    await operator.rows<{ query: string }>(`SELECT query FROM system.processes WHERE ${isMarked}`)
  const kill = () => operator.command(`KILL QUERY WHERE ${isMarked} SYNC`)
  // It has no end.
  const endless = `SELECT count() FROM system.numbers /* greedy ${mark} */ SETTINGS max_threads = 1`
  const running = as('greedy', () => clickhouse.rows(endless)).catch((error: unknown) => error)
  const answered: string[] = []
  const waiting = as('greedy', () => clickhouse.rows(`SELECT 'greedy ${mark}' AS text`)).then(() => {
    answered.push('greedy')
  })
  await eventually(async () => expect(await ofMark()).toHaveLength(1))
  for (let n = 0; n < 5; n++) {
    await as('quiet', () => clickhouse.rows('SELECT 1 AS one'))
    answered.push('quiet')
  }
  expect(await ofMark()).toEqual([{ query: expect.stringContaining('system.numbers') }])
  expect(answered).toEqual(Array(5).fill('quiet'))
  expect(tenants.queriesWaiting()).toBe(1)

  await kill()
  expect(await running).toBeInstanceOf(Error)
  await waiting
  expect(answered.at(-1)).toBe('greedy')
})
