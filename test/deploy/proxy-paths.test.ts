import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTestService } from '../kit/service.ts'

let ingest: Awaited<ReturnType<typeof openTestService>>

beforeAll(async () => {
  ingest = await openTestService({ roles: new Set(['ingest']) })
})
afterAll(() => ingest?.close())

/** The paths after `path` in the matcher `@ingest`. */
async function readProxyPaths(): Promise<string[]> {
  const text = await readFile(new URL('../../deploy/compose/Caddyfile', import.meta.url), 'utf8')
  const matcher = /@ingest \{\n([^}]*)\}/.exec(text)?.[1] ?? ''
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
