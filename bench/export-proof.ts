import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { type ExportFormat, exportFormats, formats } from '../store/clickhouse/export/formats.ts'
import { openDatabase } from '../store/postgres/database.ts'
import { createAssetClient } from '../test/kit/clients/assets.ts'
import { readWholeNumber } from '../test/kit/command-line/options.ts'
import { createClient } from '../test/kit/http/client.ts'
import { svc } from '../test/kit/processes/svc.ts'
import { runCommand, say } from './command.ts'
import { type BenchStores, openBenchStores } from './contenders/stores.ts'
import { type System, startSystem } from './contenders/system.ts'
import { contexts, insertPoints, metrics, type Points, receivedMs, seeds, specialBits, timeMs } from './proof/points.ts'
import { compareReads, listReads, readAll } from './proof/reads.ts'
import { describeMachine, keepResults } from './report/results.ts'

/**
 * `npm run bench:export-proof`: what is exported is what was stored. A project whose points a formula makes is exported in each
 * format, whole and in parts; pandas, polars and duckdb read each file by the lines of docs/export.md, and every value is compared
 * with the formula. Then the project moves to an empty server as an archive, where every read must answer the same, and Parquet
 * and Arrow have the same values. The api must stay below 300 MiB while it exports and imports.
 */
const usage = `Usage: npm run bench:export-proof -- [options]

  --runs N       experiments of the project (default 1000)
  --points N     points of an experiment, in 10 metrics (default 10000)
  --python PATH  of a Python with pandas, polars, duckdb and pyarrow (default python3)
`

const apiMiBMax = 300
const readers = ['pandas', 'polars', 'duckdb']
const whats = ['metrics', 'system-metrics', 'output', 'runs'] as const
const compareScript = fileURLToPath(new URL('../clients/python/bench/export_values.py', import.meta.url))
const settings = { SVC_PUBLIC_URL: 'https://svc.example' }
const callsAtOnce = 8
const projectName = 'proof'

/** What to compare, and the files that have it. */
type Job = [what: string, files: string[]]
type Run = { key: string; name: string; assetIds: string[] }
type Service = { url: string; apiKey: string } & Pick<System, 'readPeakMiB' | 'forgetPeaks'>

await runCommand(async (closers) => {
  const { values } = parseArgs({
    options: {
      runs: { type: 'string', default: '1000' },
      points: { type: 'string', default: '10000' },
      python: { type: 'string', default: 'python3' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const [count, ofRun] = [readWholeNumber('runs', values.runs, 1), readWholeNumber('points', values.points, 100)]
  if (ofRun % metrics.length !== 0) throw new Error(`--points must be a multiple of ${metrics.length}.`)
  const points: Points = { metrics: ofRun, 'system-metrics': 100, output: 10 }
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-proof-'))
  closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const onClose = (close: () => unknown) => void closers.push(async () => void (await close()))

  say('Starting the stores and the service')
  const { service: source, stores } = await start()
  const peaksMiB: Record<string, number> = {}
  say(`Making ${count} experiments`)
  const { runs, projectId } = await createRuns(source, stores, count)
  say(`Making ${(count * ofRun).toLocaleString('en')} points`)
  const { ids } = await listRuns(stores)
  const clickhouse = openClickHouse({ url: stores.urls.clickhouseUrl, readTimeoutMs: 300_000 })
  closers.push(() => clickhouse.close())
  await insertPoints(clickhouse, ids, points)

  const specFile = path.join(folder, 'spec.json')
  const spec = { project: projectName, runs, points, seeds, metrics, contexts, specialBits, timeMs, receivedMs }
  await writeFile(specFile, JSON.stringify(spec))
  await source.forgetPeaks()
  const compared: object[] = []
  for (const format of exportFormats) {
    const place = path.join(folder, format)
    await mkdir(place)
    const jobs: Job[] = []
    for (const what of whats) jobs.push([what, [await exportWhole(source, what, format, place)]])
    for (const { what, files } of await exportInParts(format, place)) {
      if (files.length > 1) jobs.push([what, files])
    }
    await tellPeak(source, format)
    for (const reader of readers) await compareWith(reader, format, jobs, place)
    await rm(place, { recursive: true })
  }

  say('Exporting the archive')
  const archive = path.join(folder, 'project.tar')
  const exportSeconds = await runSvc(source, ['export', '--project', projectName, '--archive', archive])
  await tellPeak(source, 'the archive')
  const archiveMiB = (await stat(archive)).size / 2 ** 20
  say('Reading everything')
  const reads = listReads(projectId, runs)
  const before = await readAll(source, reads)
  const { service: target } = await start()
  await target.forgetPeaks()
  say(`Importing ${archiveMiB.toFixed(0)} MiB into an empty server`)
  const importSeconds = await runSvc(target, ['import', archive, '--workspace', 'default'])
  await tellPeak(target, 'the import')
  say(`${reads.length} reads there`)
  compareReads(await readAll(target, reads), before)
  for (const format of ['parquet', 'arrow'] as const) {
    const place = path.join(folder, format)
    await mkdir(place)
    const jobs: Job[] = []
    for (const what of whats) jobs.push([what, [await exportWhole(target, what, format, place)]])
    await compareWith('pandas', format, jobs, place)
  }

  const results = { compared, reads: reads.length, archiveMiB, exportSeconds, importSeconds, peaksMiB }
  const file = await keepResults('export-proof', { runs: count, points: ofRun }, results)
  const told = Object.entries(peaksMiB).map(([step, it]) => `${step} ${it.toFixed(0)} MiB`)
  process.stdout.write(
    `\n${describeMachine()}\n\n${compared.length} comparisons, all values equal; ${reads.length} reads, all equal.\n` +
      `Archive: ${archiveMiB.toFixed(0)} MiB, exported in ${exportSeconds.toFixed(0)} s, imported in ${importSeconds.toFixed(0)} s.\n` +
      `The api at its peak: ${told.join(', ')}.\n`,
  )
  if (Math.max(0, ...Object.values(peaksMiB)) >= apiMiBMax)
    throw new Error(`The api needed more than ${apiMiBMax} MiB.`)
  say(`Written to ${file}`)

  /** Of the step that ends here. */
  async function tellPeak({ readPeakMiB, forgetPeaks }: Service, step: string) {
    const peak = (await readPeakMiB())?.api
    await forgetPeaks()
    if (peak === undefined) return
    peaksMiB[step] = peak
    say(`The api at its peak, ${step}: ${peak.toFixed(0)} MiB`)
  }

  /** A service with stores of its own: the api, and the other roles beside it. */
  async function start() {
    const stores = await openBenchStores(closers, 'everysec')
    const system = await startSystem({
      ...{ target: 'service', queue: 'postgres', stores, closers, settings },
      profileFolder: undefined,
    })
    const service: Service = { ...system, url: system.readUrl, apiKey: stores.apiKey }
    return { service, stores }
  }

  async function exportWhole(
    { url, apiKey }: Service,
    what: string,
    format: ExportFormat,
    place: string,
  ): Promise<string> {
    const query = new URLSearchParams({ workspaceName: 'default', projectName, format })
    const headers = { authorization: apiKey }
    const answer = await fetch(`${url}/api/rest/v2/export/${what}?${query}`, { headers })
    if (answer.status !== 200) throw new Error(`${what} answered ${answer.status}: ${await answer.text()}`)
    const name = `${what}.${formats[format].extension}`
    await pipeline(Readable.fromWeb(answer.body as never), createWriteStream(path.join(place, name)))
    return name
  }

  /** By the command, whose manifest is held against the files here. */
  async function exportInParts(format: ExportFormat, place: string) {
    const rows = String(Math.max(1, Math.floor((count * ofRun) / 7)))
    await runSvc(source, [
      'export',
      '--project',
      projectName,
      '--out',
      place,
      '--format',
      format,
      '--rows-of-part',
      rows,
    ])
    type File = { name: string; rows: number; bytes: number; sha256: string }
    const { exports } = JSON.parse(await readFile(path.join(place, 'manifest.json'), 'utf8')) as {
      exports: Record<string, { files: File[] }>
    }
    for (const { name, bytes, sha256 } of Object.values(exports).flatMap((it) => it.files)) {
      const hash = createHash('sha256')
      let read = 0
      for await (const chunk of createReadStream(path.join(place, name))) {
        hash.update(chunk)
        read += chunk.length
      }
      if (read !== bytes || hash.digest('hex') !== sha256) throw new Error(`${name} is not what the manifest says.`)
    }
    return Object.entries(exports).map(([what, { files }]) => ({ what, files: files.map((it) => it.name) }))
  }

  async function compareWith(reader: string, format: string, jobs: Job[], place: string) {
    const args = [compareScript, specFile, place, reader, format, JSON.stringify(jobs)]
    const { stdout } = await promisify(execFile)(values.python, args)
    for (const line of stdout.trimEnd().split('\n')) {
      const found = JSON.parse(line) as { what: string; parts: number; rows: number; seconds: number }
      compared.push({ format, reader, ...found })
      const form = found.parts > 1 ? ` in ${found.parts} parts` : ''
      say(
        `${found.what}, ${format}${form}, ${reader}: ${found.rows.toLocaleString('en')} rows are equal (${found.seconds} s)`,
      )
    }
  }

  async function runSvc({ url, apiKey }: Service, args: string[]): Promise<number> {
    const startedAt = performance.now()
    const { code, stderr } = await svc([...args, '--url', url], { SVC_API_KEY: apiKey }, onClose)
    if (code !== 0) throw new Error(`svc ${args[0]} failed: ${stderr}`)
    return (performance.now() - startedAt) / 1_000
  }
})

/** Experiments with a parameter, tags, an other, and some with an asset. They have ended, or else their state would change. */
async function createRuns({ url, apiKey }: Service, stores: BenchStores, count: number) {
  const client = createClient(url, { apiKey, workspaceName: 'default' })
  const assets = createAssetClient({ url, apiKey, client })
  const assetIds = new Map<string, string>()
  const post = async (name: string, body: object) => {
    const answer = await client.post(`/write/experiment/${name}`, body)
    if (answer.status !== 200) throw new Error(`${name} answered ${answer.status}: ${answer.text}`)
  }
  const work = Array.from({ length: count }, (_, at) => at).values()
  const createAll = async () => {
    for (const at of work) {
      const experimentKey = await client.createExperiment({ projectName, experimentName: `run "${at}", ä` })
      await post('log-other', { experimentKey, key: 'note', value: `of ${at}\n"quoted"` })
      await post('tags', { experimentKey, addedTags: at % 2 === 0 ? ['even'] : ['odd', 'a, b'] })
      await post('set-start-end-time', { experimentKey, startTimeMillis: timeMs + at, endTimeMillis: timeMs + at + 5 })
      if (at % 10 > 0) continue
      const body = Buffer.from(Array.from({ length: 100_000 }, (_, it) => (it * 31 + at) % 251))
      const headers = { 'content-type': 'application/octet-stream' }
      const answer = await assets.upload({ experimentKey, fileName: 'weights.bin' }, { body, headers })
      assetIds.set(experimentKey, answer.body.assetId as string)
    }
  }
  await Promise.all(Array.from({ length: callsAtOnce }, createAll))
  const { rows, projectId } = await listRuns(stores)
  // Of the place that a run has in exports.
  for (const [at, { key }] of rows.entries()) {
    await post('parameter', { experimentKey: key, parameterName: 'rate', parameterValue: `rate ${at}` })
  }
  const runs: Run[] = rows.map(({ key, name }) => ({
    key,
    name,
    assetIds: assetIds.has(key) ? [assetIds.get(key) as string] : [],
  }))
  return { runs, projectId }
}

/** In the order in which they were made, as exports have them. */
async function listRuns(stores: BenchStores) {
  const database = openDatabase({ url: stores.urls.postgresUrl, connectionsMax: 1, onError: () => undefined })
  const rows = await database.rows<{ id: bigint; key: string; name: string; projectId: string }>(
    'SELECT id, key, name, project_id AS "projectId" FROM experiments ORDER BY id',
  )
  await database.close()
  return { rows, ids: rows.map((it) => String(it.id)), projectId: rows[0]?.projectId as string }
}
