import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { beforeAll, expect, it } from 'vitest'

const root = new URL('../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')
const print = async () => (await promisify(execFile)('node', ['deploy/sbom.ts'], { cwd: root, maxBuffer: 1e8 })).stdout

type Sbom = {
  bomFormat: string
  metadata: { component: { name: string } }
  components: { 'bom-ref': string; name: string; version: string; purl: string; hashes?: unknown[] }[]
  dependencies: { ref: string; dependsOn: string[] }[]
}
type Locked = { version: string; dev?: boolean; name?: string }

let text: string
let again: string
let sbom: Sbom
let names: Set<string>
beforeAll(async () => {
  ;[text, again] = await Promise.all([print(), print()])
  sbom = JSON.parse(text)
  names = new Set(sbom.components.map((it) => `${it.name}@${it.version}`))
})

it('every package that the lock file installs for production is in the bill of materials, and those inside the pages', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, Locked> }
  const locked = Object.entries(packages)
    .filter(([path]) => path !== '')
    .map(([path, it]) => ({ ...it, name: it.name ?? path.slice(path.lastIndexOf('node_modules/') + 13) }))
  const production = locked.filter((it) => !it.dev).map((it) => `${it.name}@${it.version}`)
  expect(production.length).toBeGreaterThan(200)
  expect(production.filter((it) => !names.has(it))).toEqual([])

  const inPages = new Set(JSON.parse(read('web/dist/packages.json')) as string[])
  expect([...inPages]).toEqual(expect.arrayContaining(['react', 'react-dom', 'uplot']))
  for (const name of inPages)
    expect(
      [...names].some((it) => it.startsWith(`${name}@`)),
      name,
    ).toBe(true)

  // Nothing else: what only builds and tests need is in no image.
  const allowed = new Set([
    ...production,
    ...locked.filter((it) => inPages.has(it.name)).map((it) => `${it.name}@${it.version}`),
  ])
  expect([...names].filter((it) => !allowed.has(it))).toEqual([])
  expect([...names].some((it) => it.startsWith('vitest@'))).toBe(false)
})

it('it is CycloneDX whose references lead somewhere, and the same each time', () => {
  expect([sbom.bomFormat, sbom.metadata.component.name]).toEqual(['CycloneDX', 'svc'])
  const refs = new Set(['svc@0.1.0', ...sbom.components.map((it) => it['bom-ref'])])
  expect(sbom.dependencies.flatMap((it) => [it.ref, ...it.dependsOn]).filter((it) => !refs.has(it))).toEqual([])
  for (const it of sbom.components)
    expect([it.purl, it.hashes?.length], it.name).toEqual([expect.stringMatching(/^pkg:npm\//), 1])
  expect(again).toBe(text)
})

it('both images have it', () => {
  const steps = read('deploy/Dockerfile').match(/^RUN node deploy\/sbom\.ts > sbom\.cdx\.json/gm)
  expect(steps).toHaveLength(2)
  expect(read('.dockerignore')).toContain('!deploy/sbom.ts')
})
