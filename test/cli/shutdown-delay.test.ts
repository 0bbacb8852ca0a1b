import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import { createClient } from '../kit/http/client.ts'
import { startRole } from '../kit/processes/svc.ts'
import { createUser, storesWith } from '../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

/** One request on the connections of the agent, and what became of its connection. */
async function post(agent: Agent, url: string, apiKey: string, body: unknown) {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; connection: string; text: string }>()
  const headers = { authorization: apiKey, 'content-type': 'application/json' }
  const sent = request(url, { agent, method: 'POST', headers })
  sent.on('error', reject).on('response', async (answer) => {
    const { statusCode = 0, headers } = answer
    resolve({ status: statusCode, connection: headers.connection ?? '', text: await text(answer) })
  })
  sent.end(JSON.stringify(body))
  return await promise
}

it('until SVC_SHUTDOWN_DELAY_SECONDS have passed, a process that was told to stop takes every write and ends connections', async () => {
  const stores = storesWith('postgres')
  const user = await createUser(stores)
  const api = await startRole('api', stores)
  // An hour: what is seen here is seen before it has passed, however slow this machine is.
  const ingest = await startRole('ingest', stores, { SVC_SHUTDOWN_DELAY_SECONDS: '3600' })
  closers.push(async () => {
    for (const it of [api, ingest]) it.kill('SIGKILL')
    await Promise.all([api.ended, ingest.ended])
  })
  const experimentKey = await createClient(api.url, user).createExperiment()
  const agent = new Agent({ keepAlive: true })
  closers.push(async () => agent.destroy())
  const write = (path: string, body: object) =>
    post(agent, `${ingest.url}/api/rest/v2/write/experiment/${path}`, user.apiKey, { experimentKey, ...body })
  const single = () => write('metric', aPoint())
  const batch = () => write('metrics/batch', { metrics: [aPoint()] })
  expect(await single()).toMatchObject({ status: 200, connection: 'keep-alive' })

  ingest.kill('SIGTERM')
  await eventually(async () => {
    const answer = await fetch(`${ingest.url}/readyz`)
    expect([answer.status, await answer.text()]).toEqual([503, expect.stringContaining('is draining')])
  })

  for (const send of [single, single, batch, batch]) {
    expect(await send()).toMatchObject({ status: 200, connection: 'close' })
  }
})
