import { afterEach, expect, it } from 'vitest'
import { aPoint } from '../kit/builders.ts'
import { createClient, type TestClient } from '../kit/http/client.ts'
import { startRole } from '../kit/processes/svc.ts'
import { createUser, storesWith, uniqueName } from '../kit/service.ts'

const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function start(role: 'ingest' | 'api', settings: Record<string, string>): Promise<string> {
  const running = await startRole(role, storesWith('postgres'), settings)
  closers.push(async () => {
    running.kill('SIGKILL')
    await running.ended
  })
  return running.url
}

type Call = () => Promise<{ status: number }>

/** How long after `since` a call that was let in is refused, in ms. */
async function refusedAfter(call: Call, since: number): Promise<number> {
  for (;;) {
    const { status } = await call()
    const tookMs = performance.now() - since
    if (status === 401) return tookMs
    expect(status).toBe(200)
    if (tookMs > 5_000) return tookMs
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

it('a key that one process revokes is refused by another api and by ingest within a second', async () => {
  const settings = { SVC_QUEUE_PREFIX: uniqueName('queue') }
  const [apiUrl, otherUrl, ingestUrl] = await Promise.all([
    start('api', settings),
    start('api', settings),
    start('ingest', settings),
  ])
  const user = await createUser(storesWith('postgres'), { isAdmin: true })
  const admin = createClient(apiUrl, user)
  const { organizationName } = (await admin.get('/admin/users')).body
  const { workspaceName } = user

  const delay: Record<string, number> = {}
  const ways: Record<string, (name: string, apiKey: string) => ReturnType<TestClient['get']>> = {
    'delete-api-key': (name, apiKey) => admin.post(`/write/service-account/${name}/delete-api-key`, { apiKey }),
    rotate: (name) => admin.get(`/write/api/rotate?userName=${name}`),
    'DELETE of the account': (name) => admin.send('DELETE', `/write/service-account/${name}`, undefined),
  }
  for (const [way, revoke] of Object.entries(ways)) {
    const name = uniqueName('account')
    const made = await admin.post('/write/service-account', { name, teamName: workspaceName, organizationName })
    const apiKey = made.body.apiKey as string
    const client = { apiKey, workspaceName }
    const experimentKey = await createClient(apiUrl, client).createExperiment()
    const read: Call = () => createClient(otherUrl, client).get('/account-details')
    const write: Call = () =>
      createClient(ingestUrl, client).post('/write/experiment/metric', { experimentKey, ...aPoint() })
    // Both processes know the key, and remember it.
    expect([(await read()).status, (await write()).status]).toEqual([200, 200])

    expect((await revoke(name, apiKey)).status).toBe(200)
    const since = performance.now()
    const [api, ingest] = await Promise.all([refusedAfter(read, since), refusedAfter(write, since)])
    delay[`${way}: api`] = api
    delay[`${way}: ingest`] = ingest
  }
  for (const [what, ms] of Object.entries(delay)) expect(ms, what).toBeLessThan(1_000)
})
