import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { runCommand } from '../../../test/kit/processes/svc.ts'
import { openTestService } from '../../../test/kit/service.ts'
import { type OpenApi, pickCalls } from '../openapi.ts'
import { home, openProject } from './project.ts'
import { expectEvent } from './stored.ts'

let service: Awaited<ReturnType<typeof openTestService>>
let project: Awaited<ReturnType<typeof openProject>>
const closersOfAll: (() => unknown)[] = []
beforeAll(async () => {
  service = await openTestService()
  project = await openProject((close) => void closersOfAll.push(close))
})
afterAll(async () => {
  for (const close of closersOfAll.splice(0).reverse()) await close()
  await service?.close()
})

const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})
const onClose = (close: () => unknown) => void closers.push(close)

const environment = () => ({
  SVC_URL: service.url,
  SVC_API_KEY: service.apiKey,
  SVC_WORKSPACE: service.workspaceName,
})

const run = (name: string, text: string) => project.run(name, text, environment())

const readme = async () => {
  const text = await readFile(path.join(home, 'README.md'), 'utf8')
  return [...text.matchAll(/```js\n([\s\S]*?)```/g)].map((it) => it[1] as string)
}

describe('a program with the package', () => {
  it('runs the starts of the README as they stand there', async () => {
    const [training, serving] = (await readme()) as [string, string]
    const lines = [training, serving].map((it) => it.split('\n').filter(Boolean).length)
    expect(Math.max(...lines)).toBeLessThanOrEqual(12)
    const trained = await run('training.js', training)
    expect(trained).toMatchObject({ code: 0, stderr: '' })
    const key = /([0-9a-f]{32})\s*$/.exec(trained.stdout)?.[1] as string
    expect(await service.client.readPoints(key, 'loss', 100)).toHaveLength(100)
    expect(await run('serving.js', serving)).toMatchObject({ code: 0, stderr: '', stdout: '[]\n' })
    const event = { workspaceName: service.workspaceName, modelName: 'fraud', predictionId: 'order-17' }
    await expectEvent(service.client, event, { labels: { value: ['string', 'fraud'] } })
  })

  it('has sent everything when it ends without saying so', async () => {
    const ended = await run(
      'short.js',
      `import { MonitoringLogger } from '@svc/client'
       new MonitoringLogger({ modelName: 'short' }).logEvent({ predictionId: 'one' })`,
    )
    expect(ended).toEqual({ code: 0, signal: null, stdout: '', stderr: '' })
    await expectEvent(
      service.client,
      { workspaceName: service.workspaceName, modelName: 'short', predictionId: 'one' },
      {},
    )
  })

  it.each([
    { how: 'throws', ending: `throw new Error('out of data')`, code: 1, error: 'Error: out of data' },
    { how: 'rejects', ending: `await Promise.reject(new Error('no key'))`, code: 1, error: 'Error: no key' },
    { how: 'calls process.exit', ending: `process.exit(0)`, code: 0, error: undefined },
    { how: 'calls process.exit with a status', ending: `process.exit(3)`, code: 3, error: 'The process ended with 3.' },
    {
      how: 'calls process.exit while it ends',
      ending: `void experiment.end(); await new Promise((then) => setTimeout(then, 5)); process.exit(0)`,
      code: 0,
      error: undefined,
    },
  ])('has sent everything once when it $how', async ({ ending, code, error }) => {
    const ended = await run(
      'at-once.js',
      `import { Experiment, MonitoringLogger } from '@svc/client'
       const experiment = Experiment.create({ projectName: 'exits' })
       console.log(experiment.key)
       for (let step = 0; step < 25_000; step++) experiment.logMetric('loss', step, { step })
       experiment.logParameter('rate', 0.5)
       experiment.logAsset(new Uint8Array([1, 2, 3]), { name: 'bytes' })
       new MonitoringLogger({ modelName: 'exits' }).logEvent({ predictionId: experiment.key })
       ${ending}`,
    )
    expect(ended.code, ended.stderr).toBe(code)
    const experimentKey = /[0-9a-f]{32}/.exec(ended.stdout)?.[0] as string
    const points = await service.client.readPoints(experimentKey, 'loss', 25_000)
    expect(points.map((it) => it.step)).toEqual(Array.from({ length: 25_000 }, (_, step) => step))
    const read = async (call: string, query = '') =>
      (await service.client.get(`/experiment/${call}?experimentKey=${experimentKey}${query}`)).body
    expect((await read('parameters')).values).toMatchObject([{ name: 'rate', valueCurrent: '0.5' }])
    expect((await read('asset/list', '&type=all')).assets).toMatchObject([{ fileName: 'bytes', fileSize: 3 }])
    const { running, hasCrashed, error: told, endTimeMillis } = (await read('metadata')) as Record<string, unknown>
    expect([running, hasCrashed, told, typeof endTimeMillis]).toEqual([false, error !== undefined, error, 'number'])
    const event = { workspaceName: service.workspaceName, modelName: 'exits', predictionId: experimentKey }
    await expectEvent(service.client, event, {})
  })

  it('has sent everything when it ends by SIGTERM, if it asked for that', async () => {
    const ended = await run(
      'stopped.js',
      `import { MonitoringLogger } from '@svc/client'
       new MonitoringLogger({ modelName: 'stopped', flushOnSigterm: true }).logEvent({ predictionId: 'one' })
       setInterval(() => undefined, 1000)
       process.kill(process.pid, 'SIGTERM')`,
    )
    expect(ended).toMatchObject({ code: null, signal: 'SIGTERM', stderr: '' })
    await expectEvent(
      service.client,
      { workspaceName: service.workspaceName, modelName: 'stopped', predictionId: 'one' },
      {},
    )
  })
})

describe('the inference server of the examples', () => {
  it('has sent what it predicted when it is stopped', async () => {
    const port = await findFreePort()
    const file = path.join(home, 'examples/inference-server.ts')
    const server = runCommand(process.execPath, [file], { ...environment(), PORT: String(port) }, onClose)
    await eventually(() => expect(server.stdout(), server.stderr()).toContain('listening at'))
    const call = async (name: string, body: object) => {
      const headers = { 'content-type': 'application/json', connection: 'close' }
      const answer = await fetch(`http://127.0.0.1:${port}${name}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      })
      expect(answer.status).toBe(200)
      return (await answer.json()) as { predictionId: string; fraud: boolean }
    }
    const { predictionId, fraud } = await call('/predict', { amount: 750.5, country: 'NL' })
    await call('/outcome', { predictionId, fraud: false })
    server.kill('SIGTERM')
    expect(await server.ended).toEqual({ code: 0, signal: null })
    expect(fraud).toBe(true)
    await expectEvent(
      service.client,
      { workspaceName: service.workspaceName, modelName: 'fraud', predictionId },
      {
        features: { amount: ['float', 750.5], country: ['string', 'NL'] },
        prediction: { value: ['boolean', true], probability: ['float', 0.7505] },
        labels: { value: ['boolean', false] },
      },
    )
  })
})

describe('the generated types', () => {
  it('are those of the service: else run "npm run generate" in clients/typescript', async () => {
    const document = (await (await fetch(`${service.url}/openapi.json`)).json()) as OpenApi
    const generated = await readFile(path.join(home, 'src/api.ts'), 'utf8')
    expect(/Fingerprint: (\w+)/.exec(generated)?.[1]).toBe(pickCalls(document).fingerprint)
  })
})
