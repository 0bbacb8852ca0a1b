import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, rename, stat } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createSteps } from '../terminal/steps.ts'
import { describeTerminal } from '../terminal/terminal.ts'
import { createExportClient } from './client.ts'
import { type ExportFile, type ExportManifest, readManifest, writeManifest } from './manifest.ts'

/**
 * `svc export`: writes a project into a folder, a file for each part, and a manifest with the rows, bytes and SHA-256 of each.
 * Run again, it reads only what is missing or differs from the manifest. Parts of one manifest fit together, however long it
 * takes: what the service accepts after the first run began is in none of them.
 */
type Options = Record<string, string | boolean | undefined>

const whats = ['runs', 'metrics', 'system-metrics', 'output']
const extensions: Record<string, string> = { parquet: 'parquet', arrow: 'arrows', csv: 'csv', jsonl: 'jsonl' }

export async function exportProject(options: Options): Promise<void> {
  const settings = readOptions(options)
  const { url, apiKey, project, format, wanted, folder, rowsOfPart, json } = settings
  const client = createExportClient(url, apiKey)
  const step = createSteps(process.stdout, describeTerminal(process.stdout, process.env), { json })
  const workspace =
    settings.workspace ??
    (await client.get('account-details', {}, async (it) => {
      return ((await it.json()) as { defaultWorkspaceName: string }).defaultWorkspaceName
    }))
  await mkdir(folder, { recursive: true })
  const about = { url, workspace, project, format }
  const manifest: ExportManifest = (await readManifest(folder)) ?? { ...about, exports: {} }
  for (const [name, value] of Object.entries(about)) {
    const before = manifest[name as keyof typeof about]
    if (before === value) continue
    throw new Error(`${folder} has an export of ${name} "${before}", not "${value}": choose another folder with --out.`)
  }
  const query = { workspaceName: workspace, projectName: project }

  for (const what of wanted) {
    await step(what, async (say) => {
      manifest.exports[what] ??= await plan(what)
      await writeManifest(folder, manifest)
      const { files } = manifest.exports[what]
      for (const [at, file] of files.entries()) {
        say(`${at} of ${files.length} files`)
        if (await isWhole(file)) continue
        Object.assign(
          file,
          await download(what, file, (bytes) => say(`${at} of ${files.length} files, ${toMegabytes(bytes)}`)),
        )
        await writeManifest(folder, manifest)
      }
    })
  }
  const files = wanted.flatMap((what) => manifest.exports[what]?.files ?? [])
  const sum = (of: 'rows' | 'bytes') => files.reduce((total, it) => total + (it[of] ?? 0), 0)
  process.stdout.write(
    json
      ? `${JSON.stringify({ folder, ...manifest })}\n`
      : `${sum('rows').toLocaleString('en-US')} rows in ${files.length} files of ${toMegabytes(sum('bytes'))}: ${folder}\n`,
  )

  async function plan(what: string) {
    const extension = extensions[format] as string
    if (what === 'runs') return { until: Date.now(), files: [{ name: `runs.${extension}` }] }
    const asked = { ...query, what, ...(rowsOfPart !== undefined && { rowsOfPart }) }
    const { until, parts } = await client.get('export/manifest', asked, async (it) => (await it.json()) as Planned)
    const toName = (at: number) => `${what}-${String(at + 1).padStart(5, '0')}.${extension}`
    return { until, files: parts.map((it, at) => ({ name: toName(at), ...it })) }
  }

  async function isWhole({ name, bytes, sha256 }: ExportFile): Promise<boolean> {
    const place = path.join(folder, name)
    const found = await stat(place).catch(() => undefined)
    if (sha256 === undefined || found?.size !== bytes) return false
    const hash = createHash('sha256')
    for await (const chunk of createReadStream(place)) hash.update(chunk)
    return hash.digest('hex') === sha256
  }

  /** Reads a file under another name, and renames it once it is whole and on disk. */
  async function download(what: string, { name, part, rows }: ExportFile, onBytes: (bytes: number) => void) {
    const place = path.join(folder, name)
    const got = await client.get(`export/${what}`, { ...query, format, ...(part && { part }) }, async (answer) => {
      const hash = createHash('sha256')
      let bytes = 0
      await pipeline(
        answer.body ?? [],
        async function* (chunks) {
          for await (const chunk of chunks) {
            hash.update(chunk)
            bytes += chunk.length
            onBytes(bytes)
            yield chunk
          }
        },
        createWriteStream(`${place}.partial`, { flush: true }),
      )
      return { rows: Number(answer.headers.get('x-export-rows')), bytes, sha256: hash.digest('hex') }
    })
    if (rows !== undefined && part !== undefined && got.rows !== rows) {
      throw new Error(
        `${name} has ${got.rows} rows instead of ${rows}: experiments were deleted since the export began. Begin another one ` +
          'with --out.',
      )
    }
    await rename(`${place}.partial`, place)
    return got
  }
}

type Planned = { until: number; parts: { part: string; rows: number }[] }

export const toMegabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`

function readOptions(options: Options) {
  const text = (name: string) => (typeof options[name] === 'string' ? options[name] : undefined)
  const apiKey = text('key') ?? process.env.SVC_API_KEY ?? process.env.SVC_BOOTSTRAP_API_KEY
  if (!apiKey) throw new Error('the API key is missing: pass it with --key KEY, or set SVC_API_KEY.')
  const [project, folder] = [text('project'), text('out')]
  if (!project) throw new Error('the project is missing: name it with --project NAME.')
  if (!folder) throw new Error('the folder is missing: name it with --out FOLDER.')
  const format = text('format') ?? 'parquet'
  if (!Object.hasOwn(extensions, format))
    throw new Error(`--format must be one of ${Object.keys(extensions).join(', ')}, not "${format}".`)
  const wanted = (text('what') ?? whats.join(',')).split(',').map((it) => it.trim())
  const unknown = wanted.find((it) => !whats.includes(it))
  if (unknown !== undefined) throw new Error(`--what takes ${whats.join(', ')}, not "${unknown}".`)
  return {
    url: text('url') ?? process.env.SVC_URL ?? `http://127.0.0.1:${process.env.SVC_PORT || 8080}`,
    apiKey,
    workspace: text('workspace'),
    project,
    format,
    wanted,
    folder: path.resolve(folder),
    rowsOfPart: text('rows-of-part'),
    json: options.json === true,
  }
}
