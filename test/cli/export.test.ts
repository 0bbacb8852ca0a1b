import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import { aFolder, svc } from '../kit/processes/svc.ts'
import { openTestService, uniqueName } from '../kit/service.ts'

type File = { name: string; rows: number; bytes: number; sha256: string }
type Manifest = { folder: string; exports: Record<string, { files: File[] }> }

const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

let service: Awaited<ReturnType<typeof openTestService>>
const projectName = uniqueName('export')
beforeAll(async () => {
  service = await openTestService()
  for (const experimentName of ['first', 'second']) {
    const experimentKey = await service.client.createExperiment({ projectName, experimentName })
    for (const metricName of ['loss', 'acc']) {
      const metrics = Array.from({ length: 400 }, (_, step) => aPoint({ metricName, step, metricValue: step / 7 }))
      await service.client.post('/write/experiment/metrics/batch', { experimentKey, metrics })
    }
  }
  // What was accepted a moment ago is in no part.
  const query = new URLSearchParams({ workspaceName: service.workspaceName, projectName, what: 'metrics' })
  await eventually(async () => {
    expect((await service.client.get(`/export/manifest?${query}`)).body.rows).toBe(1_600)
  })
})
afterAll(() => service?.close())

const run = (folder: string, ...more: string[]) =>
  svc(
    ['export', '--url', service.url, '--project', projectName, '--out', folder, ...more],
    { SVC_API_KEY: service.apiKey },
    onClose,
  )

async function exported(folder: string, ...more: string[]): Promise<Manifest> {
  const { code, stdout, stderr } = await run(folder, '--format', 'csv', '--rows-of-part', '500', '--json', ...more)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout) as Manifest
}

it('a project becomes files that together are the whole export; a run that is repeated reads what is missing or differs', async () => {
  const folder = await aFolder(onClose)
  const what = ['--workspace', service.workspaceName, '--what', 'runs,metrics']
  const first = await exported(folder, ...what)
  const files = first.exports.metrics?.files ?? []
  expect(files.length).toBeGreaterThan(1)
  expect(files.reduce((sum, it) => sum + it.rows, 0)).toBe(1_600)
  expect(first.exports.runs?.files).toMatchObject([{ name: 'runs.csv', rows: 2 }])
  const content = (name: string) => readFileSync(path.join(folder, name))
  for (const { name, bytes, sha256 } of files) {
    expect([content(name).length, createHash('sha256').update(content(name)).digest('hex')]).toEqual([bytes, sha256])
  }
  const query = new URLSearchParams({ workspaceName: service.workspaceName, projectName, format: 'csv' })
  const whole = (await service.client.get(`/export/metrics?${query}`)).text.trimEnd().split('\n')
  const rows = files.flatMap(({ name }) => content(name).toString().trimEnd().split('\n').slice(1))
  expect(rows).toEqual(whole.slice(1))

  const [kept, removed] = files.map((it) => path.join(folder, it.name)) as [string, string]
  const keptAt = statSync(kept).mtimeMs
  const runsBefore = content('runs.csv')
  rmSync(removed)
  writeFileSync(path.join(folder, 'runs.csv'), runsBefore.toString().replace('first', 'FIRST'))
  const again = await exported(folder, ...what)
  expect(again.exports.metrics?.files).toEqual(files)
  expect(statSync(kept).mtimeMs).toBe(keptAt)
  expect(content(path.basename(removed)).length).toBe(files[1]?.bytes)
  expect(content('runs.csv')).toEqual(runsBefore)
  expect(readdirSync(folder).filter((it) => it.endsWith('.partial'))).toEqual([])
})

it.each([
  [['--format', 'xml'], '--format must be one of parquet, arrow, csv, jsonl, not "xml".'],
  [['--what', 'metrics,points'], '--what takes runs, metrics, system-metrics, output, not "points".'],
  [['--url', 'nowhere'], '"nowhere" is not a URL. Use one such as --url http://localhost:8080'],
  [['--project', 'nothing'], 'HTTP 400'],
])('%j is refused by a line that says what to do', async (options, message) => {
  const { code, stderr } = await run(await aFolder(onClose), '--workspace', service.workspaceName, ...options)
  expect(code).toBe(1)
  expect(stderr).toContain(message)
})

it('a folder takes one export', async () => {
  const folder = await aFolder(onClose)
  const what = ['--workspace', service.workspaceName, '--what', 'runs']
  await exported(folder, ...what)
  const { code, stderr } = await run(folder, ...what, '--format', 'jsonl')
  expect(code).toBe(1)
  expect(stderr).toContain('has an export of format "csv", not "jsonl": choose another folder with --out.')
})
