import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { toHttpError } from '../../../http/errors.ts'
import { ensureUser, findAccount } from '../../../store/postgres/accounts/accounts.ts'
import { createApiKey, toKeyHash } from '../../../store/postgres/accounts/api-key.ts'
import { type Actor, administer, listAudit } from '../../../store/postgres/accounts/audit.ts'
import { insertApiKey, revokeKeys } from '../../../store/postgres/accounts/keys.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { uniqueName } from '../../kit/service.ts'

let database: Database
beforeAll(() => {
  database = openDatabase({ url: inject('stores').postgresUrl, onError: () => undefined })
})
afterAll(() => database?.close())

async function createAdmin() {
  const user = { userName: uniqueName('admin'), workspaceName: uniqueName('workspace'), isAdmin: true }
  const { userId } = await ensureUser(database, { ...user, organizationName: uniqueName('organization') })
  const key = createApiKey()
  await insertApiKey(database, userId, key)
  return { userId, actor: (await findAccount(database, toKeyHash(key).toString('hex'))) as Actor }
}

const act = (actor: Actor) => administer(database, actor, (_queries, note) => note('limits.set', 'subject'))
const countActs = async ({ organizationId }: Actor) =>
  (await listAudit(database, { organizationId, beforeId: undefined, limit: 10 })).length

it.each([
  [
    'is no longer an admin',
    (id: string) => database.row('UPDATE users SET is_admin = false WHERE id = $1', [id]),
    8000015,
  ],
  ['has lost the key', (id: string) => revokeKeys(database, id), 90212],
  ['was removed', (id: string) => database.row('UPDATE users SET deleted_at = now() WHERE id = $1', [id]), 90212],
])('whoever %s since the request was let in is refused, and nothing is done', async (_, change, code) => {
  const { userId, actor } = await createAdmin()
  await act(actor)
  await change(userId)
  const refused = await act(actor).catch((error: unknown) => toHttpError(error).code)
  expect(refused).toBe(code)
  expect(await countActs(actor)).toBe(1)
})

it('actions of one organization are serialized, those of others run concurrently', async () => {
  const [{ actor }, { actor: other }] = [await createAdmin(), await createAdmin()]
  const order: string[] = []
  let goOn: () => void = () => undefined
  const held = new Promise<void>((resolve) => {
    goOn = resolve
  })
  let begun: () => void = () => undefined
  const hasBegun = new Promise<void>((resolve) => {
    begun = resolve
  })
  const first = administer(database, actor, async () => {
    begun()
    await held
    order.push('first')
  })
  await hasBegun
  const second = administer(database, actor, async () => void order.push('second'))
  await administer(database, other, async () => void order.push('other'))
  goOn()
  await Promise.all([first, second])
  expect(order).toEqual(['other', 'first', 'second'])
})
