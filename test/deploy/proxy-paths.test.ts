import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { get } from 'node:http'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTestService } from '../kit/service.ts'

let ingest: Awaited<ReturnType<typeof openTestService>>

beforeAll(async () => {
  ingest = await openTestService({ roles: new Set(['ingest']) })
})
afterAll(() => ingest?.close())

const readCaddyfile = () => readFile(new URL('../../deploy/compose/Caddyfile', import.meta.url), 'utf8')

/** The paths after `path` in the matcher `@ingest`. */
async function readProxyPaths(): Promise<string[]> {
  const matcher = /@ingest \{\n([^}]*)\}/.exec(await readCaddyfile())?.[1] ?? ''
  return matcher
    .split('\n')
    .filter((line) => line.trim().startsWith('path '))
    .flatMap((line) => line.trim().split(/\s+/).slice(1))
}

it('the proxy of the compose file sends to ingest exactly what ingest has routes for', async () => {
  const answer = await fetch(`${ingest.url}/openapi.json`)
  const { paths } = (await answer.json()) as { paths: Record<string, unknown> }
  const documented = Object.keys(paths)
  // The same calls stand under the prefix of older clients, where the document does not repeat them.
  const older = documented
    .filter((it) => it.startsWith('/api/rest/v2/'))
    .map((it) => it.replace('/api/rest/v2/', '/clientlib/rest/v2/'))
  // So do those of clients of MLflow, where its pages call them.
  const ofPages = documented.filter((it) => it.startsWith('/api/2.0/')).map((it) => `/ajax${it.replace('/', '-')}`)
  expect(documented.length).toBeGreaterThan(10)
  expect((await readProxyPaths()).sort()).toEqual([...documented, ...older, ...ofPages].sort())
})

it('the proxy of the compose file passes on no spelling of /metrics that a role answers', async () => {
  const kept = /handle (\/metrics) \{/.exec(await readCaddyfile())?.slice(1) ?? []
  const { hostname, port } = new URL(ingest.url)
  const ask = async (path: string) => {
    const [answer] = await once(get({ hostname, port, path }), 'response')
    answer.resume()
    return answer.statusCode as number
  }
  const odd = [
    '//metrics',
    '/./metrics',
    '/x/../metrics',
    '/METRICS',
    '/metrics;x',
    '/metrics%2f',
    '/metrics//',
    '/metrics%00',
  ]
  const spellings = ['/metrics', '/metrics/', '/%6detrics', '/%6Detrics/', '/metric%73?a=1', ...odd]
  const answered: string[] = []
  for (const path of spellings) if ((await ask(path)) === 200) answered.push(path)
  expect(answered).toContain('/metrics')
  // Caddy compares the decoded path, without regard to case.
  const toCompared = (path: string) => decodeURIComponent(path.split('?')[0] as string).toLowerCase()
  expect(answered.filter((it) => !kept.includes(toCompared(it)))).toEqual([])
})
