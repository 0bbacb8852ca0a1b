import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTestService } from '../kit/service.ts'
import { type Row, specification } from './specification.ts'

/** Rows that no route serves yet. One that is served must be taken out of here. */
const notBuilt = new Set<string>([])

/** Every route stands in these: a test of its own is what counts. */
const ofAllRoutes = new Set(['api/access-matrix.test.ts'])

const linksMax = 4

const testFolder = path.resolve(import.meta.dirname, '..')
const prefix = '/api/rest/v2'

type Schema = {
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  additionalProperties?: Schema | boolean
}
type Operation = {
  description: string
  parameters?: { name: string }[]
  requestBody?: { content: Record<string, { schema: Schema }> }
  responses: Record<string, { content?: Record<string, { schema: Schema }> }>
}
type Served = { operation: Operation; request: Schema[]; answer: Schema[]; parameters: Set<string> }

const nameOf = ({ method, path }: Row) => `${method} ${path}`

let service: Awaited<ReturnType<typeof openTestService>>
let paths: Record<string, Record<string, Operation>>
let testTexts: { name: string; text: string }[]
beforeAll(async () => {
  service = await openTestService()
  paths = ((await (await fetch(`${service.url}/openapi.json`)).json()) as { paths: typeof paths }).paths
  testTexts = await readTests()
})
afterAll(() => service?.close())

async function readTests() {
  const entries = await readdir(testFolder, { recursive: true })
  const names = entries
    .filter((it) => it.endsWith('.test.ts') && !it.startsWith('conformance') && !ofAllRoutes.has(it))
    .toSorted()
  return await Promise.all(
    names.map(async (name) => {
      const text = await readFile(path.join(testFolder, name), 'utf8')
      // The path of a file that is imported may look like that of a route.
      return { name, text: text.replaceAll(/ from '[^']+'$/gm, '') }
    }),
  )
}

function findServed({ method, path }: Row): Served | undefined {
  const operation = (paths[prefix + path] ?? paths[path])?.[method.toLowerCase()]
  if (!operation) return undefined
  const schemas = (content: Record<string, { schema: Schema }> = {}) => Object.values(content).map((it) => it.schema)
  return {
    operation,
    request: schemas(operation.requestBody?.content),
    answer: schemas(operation.responses[200]?.content),
    parameters: new Set(operation.parameters?.map((it) => it.name)),
  }
}

/** Whether a schema has a field, written with a dot where it is within another. */
function hasField(schema: Schema, [name, ...rest]: string[]): boolean {
  if (name === undefined) return true
  const within = schema.properties?.[name]
  if (within && hasField(within, rest)) return true
  const inner = [schema.items, ...(schema.anyOf ?? [])].filter((it) => it !== undefined)
  return inner.some((it) => hasField(it, [name, ...rest]))
}

/** The test files that call a route, by its path. */
function findTests({ path }: Row): string[] {
  const fixed = path.split('{')[0] as string
  const pattern = new RegExp(`${RegExp.escape(fixed)}(?![a-z/-])`)
  const called = path.includes('{') ? new RegExp(`${RegExp.escape(fixed)}\\$`) : pattern
  return testTexts.filter(({ text }) => called.test(text)).map(({ name }) => name)
}

const rows = specification.flatMap((section) => section.rows)
const built = rows.filter((row) => !notBuilt.has(nameOf(row))).map((row) => ({ name: nameOf(row), row }))

it.each(built)('$name has its route, every field of it, and a test', ({ name, row }) => {
  const served = findServed(row)
  if (!served) throw new Error(`no route serves ${name}`)
  const { request, answer, parameters } = served
  const has = (schemas: Schema[], field: string) => schemas.some((it) => hasField(it, field.split('.')))
  expect(row.request.filter((field) => !parameters.has(field) && !has(request, field))).toEqual([])
  expect(row.answer.filter((field) => !has(answer, field))).toEqual([])
  expect(findTests(row)).not.toEqual([])
})

it('the routes listed as not built do not exist', () => {
  expect(rows.filter((row) => notBuilt.has(nameOf(row)) && findServed(row)).map(nameOf)).toEqual([])
})

it('the page lists every row with its route and its tests', async () => {
  const kept = await readFile(path.join(import.meta.dirname, 'README.md'), 'utf8')
  // Other tests of a route may be named than those that a new page would: each test that is added would change it.
  const isTrue = withoutTests(kept) === withoutTests(toPage()) && findLinks(kept).every((it) => existsSync(it))
  await expect(isTrue ? kept : toPage()).toMatchFileSnapshot('./README.md')
})

it('the page lists every route beyond the specification', () => {
  const page = toPage()
  for (const path of Object.keys(paths)) expect(page).toContain(`\`${path.replace(prefix, '')}\``)
})

/** The page without its last column. */
function withoutTests(page: string): string {
  return page.replaceAll(/\| [^|]*\|$/gm, '|')
}

function findLinks(page: string): string[] {
  return [...page.matchAll(/\]\((.*?)\)/g)].map(([, link]) => path.join(import.meta.dirname, link as string))
}

function toPage(): string {
  const known = new Set(rows.map(nameOf))
  const others = Object.entries(paths).flatMap(([full, methods]) =>
    Object.keys(methods).map((method) => ({
      method: method.toUpperCase(),
      path: full.replace(prefix, ''),
      request: [],
      answer: [],
    })),
  )
  const sections = [
    ...specification,
    { title: 'Further routes of ours', rows: others.filter((it) => !known.has(nameOf(it))) },
  ]
  return `# Conformance

What the specification asks for, row by row: the route that serves it and the tests that call it. This page is made from the
routes and checked by \`conformance.test.ts\`, which also holds each route to the fields of its row
(\`specification.ts\`). To write it anew: \`npx vitest run test/conformance --update\`.
${sections.map(toSection).join('')}`
}

function toSection({ title, rows }: { title: string; rows: Row[] }): string {
  const lines = rows.map((row) => {
    const files = findTests(row)
    const links = files.slice(0, linksMax).map((it) => `[${it.replace('.test.ts', '')}](../${it})`)
    const tests = files.length > linksMax ? [...links, 'and more'] : links
    const what = findServed(row)?.operation.description ?? 'not built yet'
    return `| ${row.method} | \`${row.path}\` | ${what.replaceAll('|', '\\|')} | ${tests.join(', ')} |`
  })
  return `\n## ${title}\n\n| | Path | What it does | Tests |\n|---|---|---|---|\n${lines.join('\n')}\n`
}
