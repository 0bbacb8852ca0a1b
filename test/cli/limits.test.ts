import { afterAll, beforeAll, expect, it } from 'vitest'
import type { StoreUrls } from '../../cli/settings.ts'
import { createClosers } from '../../runtime/closers.ts'
import { ensureUser } from '../../store/postgres/accounts/accounts.ts'
import { listAudit } from '../../store/postgres/accounts/audit.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { migratePostgres } from '../../store/postgres/migrate.ts'
import { expectPlainFailure } from '../kit/processes/expect.ts'
import { svc } from '../kit/processes/svc.ts'
import { openOwnStores } from '../kit/service.ts'

const closers = createClosers()
const onClose = (close: () => unknown) => closers.push(async () => close())
afterAll(() => closers.closeAll())

let stores: StoreUrls
let organizationId: string
let acts: () => Promise<unknown[]>
beforeAll(async () => {
  stores = await openOwnStores('postgres')
  await migratePostgres(stores.postgresUrl)
  const database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
  closers.push(() => database.close())
  const user = { userName: 'somebody', workspaceName: 'vision', isAdmin: true }
  ;({ organizationId } = await ensureUser(database, { ...user, organizationName: 'default' }))
  acts = async () =>
    (await listAudit(database, { organizationId, act: 'limits.set', beforeId: undefined, limit: 10 })).map(
      ({ act, subject }) => [act, subject],
    )
})

const run = (...words: string[]) => svc(['limits', ...words], { POSTGRES_URL: stores.postgresUrl }, onClose)

it('svc limits sets limits of a workspace and of the organization, and shows what is used of them', async () => {
  const set = await run('set', 'experimentsMax=5', 'metricsPerMinute=100', '--workspace', 'vision', '--json')
  expect(set).toMatchObject({ code: 0, stderr: '' })
  const used = { pointsPerMinute: 0, fileBytesMax: 0, experimentsMax: 0 }
  const vision = { workspace: 'vision', limits: { experimentsMax: 5, metricsPerMinute: 100 }, used }
  expect(JSON.parse(set.stdout)).toEqual([vision])
  await run('set', 'queriesMax=4')
  const shown = await run('--json')
  expect(JSON.parse(shown.stdout)).toEqual([
    { workspace: null, limits: { queriesMax: 4 }, used },
    { workspace: 'default', limits: {}, used },
    vision,
  ])
  const text = await run('show', '--workspace', 'vision')
  expect(text.stdout).toMatch(/^Workspace vision\n {2}pointsPerMinute +0 {2}as the service\n/)
  expect(text.stdout).toMatch(/\n {2}experimentsMax +0 {2}of 5\n {2}metricsPerMinute +- {2}of 100\n$/)
  const removed = await run('set', 'metricsPerMinute=none', '--workspace', 'vision', '--json')
  expect(JSON.parse(removed.stdout)[0].limits).toEqual({ experimentsMax: 5 })
  expect(await acts()).toEqual([
    ['limits.set', 'vision'],
    ['limits.set', 'organization'],
    ['limits.set', 'vision'],
  ])
})

it.each([
  [['set'], /Usage: svc limits \[show\]/],
  [['sets', 'queriesMax=1'], /Usage: svc limits \[show\]/],
  [['set', 'queriesMax=0'], /queriesMax: must be a number of 1 or more, or "none"\./],
  [['set', 'metricsPerMinute=5'], /metricsPerMinute=5: expected LIMIT=VALUE, .*those of a workspace need --workspace/],
  [['set', 'queriesMax=1', '--workspace', 'nowhere'], /There is no workspace "nowhere"\./],
  [['--workspace', 'nowhere'], /There is no workspace "nowhere"\./],
  [['--organization', 'nowhere'], /There is no organization "nowhere"/],
])('svc limits %j fails with what to do', async (words, said) => {
  expectPlainFailure(await run(...words), said)
})
