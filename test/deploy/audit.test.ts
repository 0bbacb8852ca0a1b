import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { openFolder } from '../kit/folder.ts'

/** `.ci/audit.cjs` with npm's own client, against a registry of this test: what it does where one can be reached, and where not. */
const root = path.resolve(import.meta.dirname, '../..')
const closers = createClosers()
afterAll(() => closers.closeAll())

const { packages } = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')) as {
  packages: Record<string, { version: string }>
}
const versionOf = (name: string) => packages[`node_modules/${name}`]?.version as string
const known = {
  fastify: ['high', 'GHSA-aaaa-bbbb-cccc'],
  pino: ['moderate', 'GHSA-dddd-eeee-ffff'],
  vitest: ['critical', 'GHSA-gggg-hhhh-iiii'],
}

let folder: string
let registry: string
let asked: string[] = []
beforeAll(async () => {
  folder = await openFolder(closers)
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    request.resume().on('end', () => {
      response.setHeader('content-type', 'application/json')
      if (request.method === 'POST') return void response.end(JSON.stringify(toAdvisories()))
      const name = decodeURIComponent(request.url?.slice(1) ?? '')
      const version = versionOf(name) ?? '1.0.0'
      response.end(
        JSON.stringify({ name, 'dist-tags': { latest: version }, versions: { [version]: { name, version } } }),
      )
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  closers.push(() => new Promise((resolve) => server.close(resolve)))
  registry = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
})

function toAdvisories() {
  return Object.fromEntries(
    Object.entries(known).map(([name, [severity, id]], at) => [
      name,
      [
        {
          id: at + 1,
          url: `https://github.com/advisories/${id}`,
          title: `a hole of ${name}`,
          severity,
          vulnerable_versions: `<=${versionOf(name)}`,
        },
      ],
    ]),
  )
}

async function audit(exceptions: object[], from = registry): Promise<{ code: number; printed: string }> {
  const file = path.join(folder, `exceptions-${randomUUID()}.json`)
  await writeFile(file, JSON.stringify(exceptions))
  const environment = { ...process.env, npm_config_registry: from, npm_config_cache: path.join(folder, 'cache') }
  return await new Promise((resolve) => {
    execFile('node', ['.ci/audit.cjs', file], { cwd: root, env: environment }, (error, printed) =>
      resolve({ code: Number(error?.code ?? 0), printed }),
    )
  })
}

const allowed = { advisory: 'GHSA-aaaa-bbbb-cccc', reason: 'the part is not used', until: '9999-12-31' }

it('a high hole of a production package fails, others do not; an exception with a reason holds until its last day', async () => {
  const stale = { ...allowed, advisory: 'GHSA-none-none-none' }
  const [plain, excepted, ended, lacking] = await Promise.all([
    audit([]),
    audit([allowed, stale]),
    audit([{ ...allowed, until: '2020-01-01' }]),
    audit([{ advisory: allowed.advisory, until: allowed.until }]),
  ])
  expect(plain.code, plain.printed).toBe(1)
  expect(plain.printed).toMatch(/^FAILS {2}high {2}fastify .*GHSA-aaaa-bbbb-cccc/m)
  expect(plain.printed).toMatch(/^known {2}moderate {2}pino /m)
  expect(plain.printed).not.toContain('vitest')
  expect(asked.some((it) => it.startsWith('POST ') && it.includes('advisories'))).toBe(true)

  expect(excepted.code, excepted.printed).toBe(0)
  expect(excepted.printed).toContain('allowed until 9999-12-31: the part is not used')
  expect(excepted.printed).toContain('The exception GHSA-none-none-none is of no use any more')
  expect([ended.code, ended.printed]).toEqual([1, expect.stringContaining('the exception ended on 2020-01-01')])
  expect([lacking.code, lacking.printed]).toEqual([1, expect.stringContaining('needs advisory, reason and until')])
})

it('without a database nothing fails, and it says that nothing was checked', async () => {
  asked = []
  const { code, printed } = await audit([], `http://127.0.0.1:${await findFreePort()}/`)
  expect([code, printed]).toEqual([0, expect.stringContaining('No database of known holes can be reached from here')])
  expect(asked).toEqual([])
})
