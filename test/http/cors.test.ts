import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import type { Answer } from '../kit/http/client.ts'
import { svc } from '../kit/processes/svc.ts'
import { openTestService } from '../kit/service.ts'

const page = 'https://page.example:8443'
const otherPage = 'http://other.example'
const metric = '/write/experiment/metric'
const none = '/api/rest/v2/nothing'

type Service = Awaited<ReturnType<typeof openTestService>>

/** The headers of an answer that browsers go by. */
function readCors({ headers }: Pick<Answer, 'headers'>) {
  const found = [...headers].filter(([name]) => name.startsWith('access-control-') || name === 'vary')
  return Object.fromEntries(found.map(([name, value]) => [name.replace('access-control-', ''), value]))
}

const askBefore = (service: Service, path: string, origin = page) =>
  fetch(service.url + path, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type',
    },
  })

/** One answer of each kind: of the fast path and of Node's server, of writes and reads, of success and of each error. */
async function callAll({ client, url }: Service, origin: string): Promise<Record<string, Answer>> {
  const experimentKey = await client.createExperiment()
  const headers = { origin }
  const point = { experimentKey, ...aPoint() }
  const body = JSON.stringify({ metrics: Array.from({ length: 1_000 }, () => aPoint()), experimentKey })
  return {
    write: await client.post(metric, point, { headers }),
    'compressed write': await client.postRaw(metric, gzipSync(JSON.stringify(point)), {
      headers: { ...headers, 'content-encoding': 'gzip' },
    }),
    'wrong write': await client.post(metric, {}, { headers }),
    'write without a key': await client.post(metric, point, { headers, apiKey: '' }),
    // How many go through before depends on when tokens are lent.
    'write over a limit': await eventually(async () => {
      const answer = await client.postRaw('/write/experiment/metrics/batch', body, { headers })
      expect(answer.status).toBe(429)
      return answer
    }),
    read: await client.get(`/experiment/metadata?experimentKey=${experimentKey}`, { headers }),
    'wrong read': await client.get('/experiment/metadata', { headers }),
    'unknown route': await client.get(url + none, { headers }),
    'address that is no URL': await client.get(`${url}/api/rest/v2/%zz`, { headers }),
  }
}

const statuses = [200, 200, 400, 401, 429, 200, 400, 404, 400]
const limits = { SVC_POINTS_PER_MINUTE: '500' }

describe.each(['on', 'off'])('with the fast path %s', (fastPath) => {
  const services: Record<string, Service> = {}
  beforeAll(async () => {
    const open = (origins: string) =>
      openTestService({ settings: { ...limits, SVC_FAST_PATH: fastPath, SVC_CORS_ORIGINS: origins } })
    services.none = await open('')
    services.listed = await open(`${page}, ${otherPage}`)
    services.any = await open('*')
  })
  afterAll(async () => {
    for (const service of Object.values(services)) await service.close()
  })
  const find = (name: string) => services[name] as Service

  async function expectOfAll(name: string, origin: string, want: Record<string, string>) {
    const answers = await callAll(find(name), origin)
    expect(Object.values(answers).map((it) => it.status)).toEqual(statuses)
    for (const [kind, answer] of Object.entries(answers)) expect(readCors(answer), kind).toEqual(want)
  }

  const exposed = {
    'expose-headers':
      'retry-after, ratelimit-limit, ratelimit-remaining, ratelimit-reset, content-disposition, content-range, etag',
  }

  it('no answer has a header for other origins unless the setting names them', async () => {
    await expectOfAll('none', page, {})
    const before = await askBefore(find('none'), `/api/rest/v2${metric}`)
    expect([before.status, readCors(before)]).toEqual([405, {}])
  })

  it('every answer allows an origin that the setting lists, and caches keep it for that origin', async () => {
    for (const origin of [page, otherPage]) {
      await expectOfAll('listed', origin, { 'allow-origin': origin, vary: 'Origin', ...exposed })
    }
  })

  it('no answer allows another origin', async () => {
    for (const origin of ['https://page.example', 'null', `${page}.evil.example`]) {
      await expectOfAll('listed', origin, { vary: 'Origin' })
    }
  })

  it('every answer allows every origin when the setting is *', async () => {
    await expectOfAll('any', page, { 'allow-origin': '*', ...exposed })
  })

  it.each([`/api/rest/v2${metric}`, '/mpm/v2/events/batch', '/api/rest/v2/experiment/series', none])(
    'a preflight of %s is answered without a key',
    async (path) => {
      const answer = await askBefore(find('listed'), path)
      expect(answer.status).toBe(204)
      expect(await answer.text()).toBe('')
      const { 'allow-headers': headers, ...cors } = readCors(answer)
      expect(cors).toEqual({
        'allow-origin': page,
        'allow-methods': 'GET, HEAD, POST, PUT, DELETE',
        'max-age': '7200',
        vary: 'Origin',
        ...exposed,
      })
      expect(headers?.split(', ')).toEqual(
        expect.arrayContaining(['authorization', 'content-type', 'content-encoding', 'idempotency-key']),
      )
      expect(headers).not.toContain('x-svc-page')
      const refused = readCors(await askBefore(find('listed'), path, 'https://evil.example'))
      expect(refused['allow-origin']).toBeUndefined()
    },
  )
})

it('a compressed answer varies by the encoding too', async () => {
  const service = await openTestService({ settings: { SVC_CORS_ORIGINS: page } })
  try {
    const experimentKey = await service.client.createExperiment({ experimentName: 'x'.repeat(100) })
    for (let at = 0; at < 100; at++) {
      const fields = { experimentKey, parameterName: `parameter ${at}`, parameterValue: 'x'.repeat(100) }
      await service.client.post('/write/experiment/parameter', fields)
    }
    const headers = { origin: page, 'accept-encoding': 'gzip' }
    const answer = await service.client.get(`/experiment/parameters?experimentKey=${experimentKey}`, { headers })
    expect(answer.headers.get('content-encoding')).toBe('gzip')
    expect(answer.headers.get('vary')).toBe('Origin, accept-encoding')
  } finally {
    await service.close()
  }
})

it('a preflight allows the headers that may carry a key', async () => {
  const service = await openTestService({ settings: { SVC_CORS_ORIGINS: '*', SVC_AUTH_HEADERS: 'X-Svc-Key' } })
  try {
    expect(readCors(await askBefore(service, none))['allow-headers']).toContain('x-svc-key')
  } finally {
    await service.close()
  }
})

it.each([
  ['page.example', '"https://host", "http://host:port" or "*"'],
  ['https://page.example/path', '"https://page.example"'],
  ['https://page.example/', '"https://page.example"'],
  ['https://page.example:443', '"https://page.example"'],
  ['https://*.example', '"https://host", "http://host:port" or "*"'],
  ['ftp://page.example', '"https://host", "http://host:port" or "*"'],
])('an origin that no browser sends is refused at the start: %s', async (origin, form) => {
  const { code, stderr } = await svc(['settings'], { SVC_CORS_ORIGINS: `http://a.example, ${origin}` }, () => undefined)
  expect(code).toBe(1)
  expect(stderr).toContain(`SVC_CORS_ORIGINS: "${origin}" is not an origin: write ${form}`)
})
