import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'
import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { openOwnObjects } from '../kit/clients/assets.ts'
import { openTestService } from '../kit/service.ts'

/** The script beside this file is the test; here it only gets a service to talk to. */
const script = new URL('./07-a-training-run-told-with-curl.sh', import.meta.url)

const closers = createClosers()
afterEach(() => closers.closeAll())

const hasCurl = spawnSync('curl', ['--version']).status === 0
if (!hasCurl) console.warn('The run told with curl was skipped: there is no curl on the PATH.')

it.skipIf(!hasCurl)('everything is logged, read back, moved about and deleted, with nothing but curl', async () => {
  const objects = await openOwnObjects()
  closers.push(objects.close)
  const service = await openTestService({ stores: { objectsUrl: objects.url } as never })
  closers.push(service.close)
  const env = {
    PATH: process.env.PATH,
    SVC_URL: service.url,
    SVC_KEY: service.apiKey,
    SVC_WORKSPACE: service.workspaceName,
  }

  const { stdout } = await promisify(execFile)('sh', [script.pathname], { env })

  expect(stdout).toMatch(/^All \d+ steps went as they should\.$/m)
})
