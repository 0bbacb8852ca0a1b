import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Organization, openOrganization } from '../api/accounts/organization.ts'

/** Writes that are of no experiment or model are charged to the key, call by call; `http/route.ts` has the declarations. */
let organization: Organization
beforeAll(async () => {
  organization = await openOrganization()
})
afterAll(() => organization?.close())

type Answer = { call: string; status: number; retryAfter: string | null; msg: unknown }

/** Sends a call of each route that may change something, all at once, with fields that no handler takes. */
async function callAll(apiKey: string): Promise<Answer[]> {
  const { paths } = (await (await fetch(`${organization.url}/openapi.json`)).json()) as {
    paths: Record<string, object>
  }
  const calls = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((it) => ({ path, method: it.toUpperCase() })),
  )
  const writing = calls.filter(({ method, path }) => method !== 'GET' || /\/write\//.test(path))
  return await Promise.all(
    writing.map(async ({ method, path }) => {
      const answer = await fetch(`${organization.url}${path.replaceAll(/\{\w+\*?\}/g, 'x')}`, {
        method,
        headers: { authorization: apiKey, 'content-type': 'application/json' },
        ...(method !== 'GET' && { body: '{}' }),
      })
      const text = await answer.text()
      const msg = text.startsWith('{') ? JSON.parse(text).msg : undefined
      const call = `${method} ${path.replace('/api/rest/v2', '')}`
      return { call, status: answer.status, retryAfter: answer.headers.get('retry-after'), msg }
    }),
  )
}

it('a key over its limit is refused each write of views, panels, registry, projects, alerts, segments and webhooks', async () => {
  const { apiKey, keyId } = (await organization.admin.post('/account/keys', {})).body as {
    apiKey: string
    keyId: string
  }
  await organization.admin.send('PUT', '/admin/limits', JSON.stringify({ keyId, limits: { otherPerMinute: 1 } }))
  const client = organization.as(apiKey)
  const spend = () =>
    client.post('/write/add-workspace-member', {
      workspaceName: organization.workspaceName,
      userName: organization.userName,
      admin: true,
    })
  // The first one may come before this process knows of the limit.
  for (let status = 200; status === 200; ) status = (await spend()).status

  const answers = await callAll(apiKey)
  const throttled = answers.filter((it) => it.status === 429)
  for (const it of throttled) {
    expect(it.msg, it.call).toBe(
      'Too much was sent for this API key: the limit is 1 calls that change something a minute. Nothing of this request ' +
        `was kept: send it again in ${it.retryAfter} s.`,
    )
  }
  // What is left reads, or is charged to an experiment or a model, or is refused before it is charged.
  const others = answers.filter((it) => it.status !== 429).map((it) => it.call)
  const uncharged = others.filter((it) => !ofExperiments.test(it) && !isRead(it))
  expect(uncharged).toEqual([])
  expect(throttled.length).toBeGreaterThan(90)
})

const ofExperiments = new RegExp(
  [
    // By ingest and by the handlers.
    '/write/experiments?/(?!create|stop|archive|delete$|restore|move)',
    '/write/artifact/assets',
    '/write/artifacts/(upsert|state)',
    '/clientlib/(status-report|batch|tags|asset|visualizations|git-patch|rpc/save)',
    '/mlflow/(runs/(update|log|set-tag|delete-tag|outputs)|logged-models)',
    '/mlflow-artifacts/artifacts',
    '/mpm/v2/(events|labels|data|dataset)/',
    // For the operators of another organization.
    '/admin/dead-letters/',
    // A key that is signed in with.
    'POST /session$',
  ].join('|'),
)

const isRead = (call: string) =>
  /(search|query|completion|series|media|names|steps|chart|stream|preview|runs|columns|history\/item|versions|datasets)(\/|$)/.test(
    call,
  ) || /\/api\/mpm\/v2\/|3d-limits|\/mpu\/|mlflow\/logged-models\/search/.test(call)

it('a call that fails costs nothing', async () => {
  const { apiKey, keyId } = (await organization.admin.post('/account/keys', {})).body as {
    apiKey: string
    keyId: string
  }
  await organization.admin.send('PUT', '/admin/limits', JSON.stringify({ keyId, limits: { otherPerMinute: 1 } }))
  const client = organization.as(apiKey)
  for (let at = 0; at < 5; at++) {
    expect((await client.post('/write/project/delete', { workspaceName: 'none', projectName: 'none' })).status).toBe(
      400,
    )
  }
})
