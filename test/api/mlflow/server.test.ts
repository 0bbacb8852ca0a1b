import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTestService } from '../../kit/service.ts'

let service: Awaited<ReturnType<typeof openTestService>>
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service?.close())

const info = '/api/3.0/mlflow/server-info'

const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`

it('the key comes as a bearer token, or as the password of any user', async () => {
  const { apiKey } = service
  for (const authorization of [`Bearer ${apiKey}`, basic('anybody', apiKey), basic('', apiKey)]) {
    const { status, body } = await service.client.get(info, { headers: { authorization } })
    expect([status, body.workspaces_enabled]).toEqual([200, true])
  }
  const wrong = await service.client.get(info, { headers: { authorization: basic(apiKey, 'x') } })
  expect([wrong.status, wrong.body.error_code]).toEqual([401, 'UNAUTHENTICATED'])
})

it('without a key the error tells which variables have it', async () => {
  const answer = await fetch(`${service.url}${info}`)
  const body = (await answer.json()) as Record<string, unknown>
  expect([answer.status, body.error_code]).toEqual([401, 'UNAUTHENTICATED'])
  expect(body.message).toMatch(/MLFLOW_TRACKING_TOKEN.*MLFLOW_TRACKING_PASSWORD/)
})

it('errors have the form that clients of MLflow read, and the same calls answer below /ajax-api', async () => {
  const absent = await service.client.get('/api/3.0/mlflow/workspaces/absent')
  expect([absent.status, absent.body.error_code]).toEqual([404, 'RESOURCE_DOES_NOT_EXIST'])
  const unknown = await service.client.get('/api/2.0/mlflow/nothing')
  expect([unknown.status, unknown.body.error_code]).toEqual([404, 'ENDPOINT_NOT_FOUND'])
  const { status, body } = await service.client.get(`${service.url}/ajax-api/3.0/mlflow/workspaces`)
  expect([status, body.workspaces]).toEqual([200, [{ name: service.workspaceName }]])
})

it('/health and /version answer without a key', async () => {
  const health = await fetch(`${service.url}/health`)
  expect([health.status, await health.text()]).toEqual([200, 'OK'])
  const version = await fetch(`${service.url}/version`)
  expect(await version.text()).toMatch(/^3\.\d+\.\d+$/)
})
