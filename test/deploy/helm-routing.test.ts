import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Role } from '../../cli/service.ts'
import { createClosers } from '../../runtime/closers.ts'
import { listIngestPaths, matchesPrefix } from '../kit/chart.ts'
import { openTestService } from '../kit/service.ts'

const closers = createClosers()
afterAll(() => closers.closeAll())

async function open(role: Role) {
  const { url, close } = await openTestService({ roles: new Set([role]) })
  closers.push(close)
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as { paths: Record<string, unknown> }
  return { url, paths: Object.keys(paths) }
}

let ingest: Awaited<ReturnType<typeof open>>
let api: Awaited<ReturnType<typeof open>>
beforeAll(async () => {
  ingest = await open('ingest')
  api = await open('api')
})

/** Older clients, and pages of MLflow, use another prefix for the same calls; the reference has the first one only. */
const listed = (paths: string[]) => paths.filter((it) => !/^\/(clientlib\/rest|ajax-api)\//.test(it)).sort()

it('the chart sends to ingest exactly the paths that ingest registers', () => {
  expect(listed(listIngestPaths())).toEqual([...ingest.paths].sort())
})

it('no route of the api lies on or below a path that the chart sends to ingest', () => {
  // The reference of the api has the calls of ingest too.
  const own = api.paths.filter((it) => !ingest.paths.includes(it))
  expect(own.length).toBeGreaterThan(100)
  const taken = own.filter((path) => listIngestPaths().some((prefix) => matchesPrefix(path, prefix)))
  expect(taken).toEqual([])
})

it('each path that the chart sends to ingest exists there, under both prefixes, and nowhere else', async () => {
  const statusOf = async (url: string) => {
    const answers = await Promise.all(['GET', 'POST'].map((method) => fetch(url, { method })))
    return answers.map((it) => it.status)
  }
  for (const path of listIngestPaths()) {
    const atIngest = await statusOf(ingest.url + path)
    // Who calls is asked first; the other method is refused as such.
    expect(atIngest.includes(path.startsWith('/clientlib/batch/') ? 400 : 401), `${path} at ingest: ${atIngest}`).toBe(
      true,
    )
    expect(await statusOf(api.url + path), `${path} at the api`).toEqual([404, 404])
  }
})
