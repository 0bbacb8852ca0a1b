/**
 * Builds the web interface into `web/dist`: hashed files below `static/`, each also compressed, and `index.html`, which
 * names them. It prints the size of each file as it is sent, and fails when the first load exceeds its budget.
 *
 *   node web/build.ts
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { build, type Metafile, transform } from 'esbuild'

const root = import.meta.dirname
const dist = path.join(root, 'dist')
const entry = 'web/app/main.tsx'
const target = 'es2023'

/** Script that must arrive before the first page is drawn, as gzip. */
const firstLoadBytesMax = 200_000

type File = { name: string; bytes: Buffer; isFirst: boolean }

const { outputFiles, metafile } = await build({
  absWorkingDir: path.dirname(root),
  entryPoints: [entry],
  outdir: 'web/dist/static',
  bundle: true,
  format: 'esm',
  splitting: true,
  target,
  jsx: 'automatic',
  // White space goes last: the comments between the parts of a style sheet tell where each comes from.
  minifySyntax: true,
  minifyIdentifiers: true,
  define: { 'process.env.NODE_ENV': '"production"' },
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  legalComments: 'none',
  metafile: true,
  write: false,
})

const main = Object.keys(metafile.outputs).find((it) => metafile.outputs[it]?.entryPoint === entry) as string
const first = collectImports(metafile, main)
const scripts = outputFiles.filter((it) => it.path.endsWith('.js'))
const files: File[] = await Promise.all(
  scripts.map(async (it) => {
    const name = path.basename(it.path)
    const { code } = await transform(it.text, { minifyWhitespace: true, format: 'esm', target, legalComments: 'none' })
    return { name, bytes: Buffer.from(code), isFirst: first.has(name) }
  }),
)
files.push(await joinStyles())

const draft = `${dist}.${process.pid}`
rmSync(draft, { recursive: true, force: true })
mkdirSync(path.join(draft, 'static'), { recursive: true })
const sizes = await Promise.all(files.map(writeCompressed))
writeFileSync(path.join(draft, 'index.html'), toIndex())
// For the bill of materials of the images: these packages are in no image by themselves.
writeFileSync(path.join(draft, 'packages.json'), `${JSON.stringify(listPackages(metafile), null, 2)}\n`)
rmSync(dist, { recursive: true, force: true })
renameSync(draft, dist)

report()

/** The names of the npm packages whose code is in the files, in order. */
function listPackages({ outputs }: Metafile): string[] {
  const taken = Object.values(outputs).flatMap(({ inputs }) =>
    Object.entries(inputs)
      .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
      .map(([file]) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]),
  )
  return [...new Set(taken.filter((it) => it !== undefined))].toSorted()
}

/** The entry and what it imports statically, by file name. */
function collectImports(meta: Metafile, output: string, seen = new Set<string>()): Set<string> {
  seen.add(path.basename(output))
  for (const it of meta.outputs[output]?.imports ?? []) {
    if (it.kind === 'import-statement' && !seen.has(path.basename(it.path))) collectImports(meta, it.path, seen)
  }
  return seen
}

/**
 * One style sheet for all pages: esbuild makes one for each lazy page but does not load it. Each source is taken once,
 * those of the entry first.
 */
async function joinStyles(): Promise<File> {
  const sheets = outputFiles.filter((it) => it.path.endsWith('.css'))
  const firstSheet = metafile.outputs[main]?.cssBundle
  sheets.sort(
    (a, b) => Number(isSheet(b.path, firstSheet)) - Number(isSheet(a.path, firstSheet)) || (a.path < b.path ? -1 : 1),
  )
  const parts = new Map<string, string>()
  for (const sheet of sheets) {
    for (const [, source, text] of sheet.text.matchAll(
      /\/\* ([^\n]+?\.css) \*\/\n([\s\S]*?)(?=\/\* [^\n]+?\.css \*\/\n|$)/g,
    )) {
      if (!parts.has(source as string)) parts.set(source as string, text as string)
    }
  }
  const { code } = await transform([...parts.values()].join('\n'), { loader: 'css', minify: true, target: 'chrome123' })
  const bytes = Buffer.from(code)
  const hash = createHash('sha256').update(bytes).digest('base64url').replaceAll(/[-_]/g, '').slice(0, 8).toUpperCase()
  return { name: `style-${hash}.css`, bytes, isFirst: true }
}

function isSheet(file: string, name: string | undefined): boolean {
  return name !== undefined && path.basename(file) === path.basename(name)
}

async function writeCompressed({ name, bytes, isFirst }: File) {
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(bytes, { params }),
    promisify(gzip)(bytes, { level: 9 }),
  ])
  const file = path.join(draft, 'static', name)
  writeFileSync(file, bytes)
  writeFileSync(`${file}.br`, br)
  writeFileSync(`${file}.gz`, gz)
  return { name, isFirst, bytes: bytes.length, gzip: gz.length, brotli: br.length }
}

function toIndex(): string {
  const style = files.find((it) => it.name.endsWith('.css')) as File
  const tags = [
    `<link rel="stylesheet" href="-/static/${style.name}">`,
    ...[...first].map((name) => `<link rel="modulepreload" href="-/static/${name}">`),
    `<script type="module" src="-/static/${path.basename(main)}"></script>`,
  ]
  const page = readFileSync(path.join(root, 'index.html'), 'utf8')
  return page.replace('<!-- files of the build -->', tags.join('\n    '))
}

function report() {
  const kB = (bytes: number) => `${(bytes / 1000).toFixed(1)} kB`.padStart(10)
  for (const it of sizes.toSorted((a, b) => b.gzip - a.gzip)) {
    console.error(
      `${kB(it.bytes)}${kB(it.gzip)} gzip${kB(it.brotli)} br  ${it.name}${it.isFirst ? '' : ' (on demand)'}`,
    )
  }
  const firstBytes = sizes.filter((it) => it.isFirst && it.name.endsWith('.js')).reduce((sum, it) => sum + it.gzip, 0)
  console.error(
    `First load: ${kB(firstBytes).trim()} of script as gzip; the budget is ${kB(firstLoadBytesMax).trim()}.`,
  )
  if (firstBytes > firstLoadBytesMax) process.exitCode = 1
}
