import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const repository = path.join(import.meta.dirname, '../..')
const usesA = "import { a } from './a.ts'\n\nexport const b = a\n"

const cases = [
  ['an unused import', 'noUnusedImports', { a: "import path from 'node:path'\n\nexport const a = 1\n", b: usesA }],
  ['an unused variable', 'noUnusedVariables', { a: 'const unused = 1\nexport const a = 1\n', b: usesA }],
  ['an import circle', 'noImportCycles', { a: "import { b } from './b.ts'\n\nexport const a = () => b\n", b: usesA }],
  [
    'an import circle of types only',
    'noImportCycles',
    {
      a: "import type { B } from './b.ts'\n\nexport type A = { b?: B }\n",
      b: "import type { A } from './a.ts'\n\nexport type B = { a?: A }\n",
    },
  ],
  [
    'a promise that nobody awaits',
    'noFloatingPromises',
    { a: 'const wait = async () => {}\n\nexport function a() {\n  wait()\n}\n', b: usesA },
  ],
] as const

/** Both files as `npm run check` sees them: under the repository's own configuration. */
describe('npm run check', () => {
  let folder: string
  let configuration: object
  beforeAll(async () => {
    const { vcs: _, ...own } = JSON.parse(await readFile(path.join(repository, 'biome.json'), 'utf8'))
    configuration = own
    folder = await mkdtemp(path.join(tmpdir(), 'svc-lint-'))
  })
  afterAll(async () => await rm(folder, { recursive: true, force: true }))

  async function check(name: string, files: { a: string; b: string }) {
    const project = path.join(folder, name.replaceAll(' ', '-'))
    await mkdir(project)
    await writeFile(path.join(project, 'biome.json'), JSON.stringify(configuration))
    for (const [file, content] of Object.entries(files)) await writeFile(path.join(project, `${file}.ts`), content)
    const biome = path.join(repository, 'node_modules/.bin/biome')
    return await promisify(execFile)(biome, ['check', '--colors=off', 'a.ts', 'b.ts'], { cwd: project }).then(
      ({ stdout, stderr }) => ({ code: 0, output: stdout + stderr }),
      ({ code, stdout, stderr }) => ({ code, output: stdout + stderr }),
    )
  }

  it.each(cases)('fails on %s', async (name, rule, files) => {
    const { code, output } = await check(name, files)

    expect(output).toContain(rule)
    expect(code).toBe(1)
  })

  it('passes two files without any of these', async () => {
    const { code, output } = await check('clean', { a: 'export const a = 1\n', b: usesA })

    expect(output).toContain('Checked')
    expect(code).toBe(0)
  })
})
