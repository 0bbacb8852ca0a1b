import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { type OpenApi, pickCalls } from './openapi.ts'

/**
 * Writes `src/api.ts` from what a running service says of itself: `npm run generate -- http://127.0.0.1:8080`. The generator is
 * fetched with the compiler that it needs, which is another than ours.
 */
const generator = ['openapi-typescript@7.10.1', 'typescript@5.9.3']
const target = fileURLToPath(new URL('src/api.ts', import.meta.url))

const url = process.argv[2] ?? 'http://127.0.0.1:8080'
const answer = await fetch(`${url}/openapi.json`)
if (!answer.ok) throw new Error(`${url}/openapi.json answers ${answer.status}: start the service with "npm start"`)
const { picked, fingerprint } = pickCalls((await answer.json()) as OpenApi)
const folder = mkdtempSync(path.join(tmpdir(), 'svc-client-'))
try {
  const document = path.join(folder, 'openapi.json')
  const types = path.join(folder, 'api.ts')
  writeFileSync(document, JSON.stringify(picked))
  const packages = generator.flatMap((it) => ['--package', it])
  const done = spawnSync('npx', ['--yes', ...packages, 'openapi-typescript', document, '--output', types], {
    cwd: folder,
    stdio: 'inherit',
  })
  if (done.status !== 0) throw new Error('The types could not be generated.')
  const heading = '// Generated from the OpenAPI document of the service: see ../generate.ts.\n'
  writeFileSync(target, `${heading}// Fingerprint: ${fingerprint}\n\n${readFileSync(types, 'utf8')}`)
} finally {
  rmSync(folder, { recursive: true })
}
