import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService } from '../../../test/kit/service.ts'
import { openProject } from './project.ts'

let service: Awaited<ReturnType<typeof openTestService>>
let project: Awaited<ReturnType<typeof openProject>>
const closers: (() => unknown)[] = []
beforeAll(async () => {
  service = await openTestService()
  closers.push(service.close)
  project = await openProject((close) => void closers.push(close))
})
afterAll(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

const read = (file: string) => readFile(path.join(project.installed, file), 'utf8')

/** Uses all that the package exports. */
const toProgram = (from: string, connection: string) => `
  import { Experiment, type ExperimentOptions, type LoggingError, MonitoringLogger, type MonitoringOptions,
    type AssetOptions, type Event, type Labels, type Log, type MetricPlace, type Scalar, type Scalars } from '${from}'
  const log: Log = console
  const options: ExperimentOptions = { ${connection} projectName: 'package', log }
  const experiment: Experiment = Experiment.create(options)
  const place: MetricPlace = { step: 3n, context: 'train', timestamp: new Date() }
  experiment.logMetric('loss', 0.5, place)
  experiment.logParameters({ rate: 0.1 })
  const asset: AssetOptions = { name: 'bytes', type: 'asset' }
  experiment.logAsset(new Uint8Array([1, 2, 3]), asset)
  const more: MonitoringOptions = { ${connection} modelName: 'package' }
  const monitoring = new MonitoringLogger(more)
  const features: Scalars = { amount: 12.5 as Scalar }
  const event: Event = { predictionId: experiment.key, inputFeatures: features }
  monitoring.logEvent(event)
  const labels: Labels = { predictionId: experiment.key, labels: { value: 'fraud' } }
  monitoring.logLabel(labels)
  await Promise.all([experiment.end(), monitoring.end()])
  const errors: LoggingError[] = [...experiment.loggingErrors(), ...monitoring.loggingErrors()]
  console.log(JSON.stringify({ key: experiment.key, errors }))`

const inPage = [`--noEmit`, '--module', 'esnext', '--moduleResolution', 'bundler', '--lib', 'es2023,dom', '--types', '']
const given = `url: 'http://127.0.0.1:8080', apiKey: 'key',`

describe('the package', () => {
  it('has what a registry shows', async () => {
    const shown = JSON.parse(await read('package.json')) as Record<string, unknown>
    expect(shown).toMatchObject({ license: 'Apache-2.0', author: 'svc contributors', keywords: expect.any(Array) })
    expect(await read('LICENSE')).toContain('Apache License')
    expect(await read('CHANGELOG.md')).toContain(`## [${shown.version}]`)
    expect(await read('README.md')).toContain('# @svc/client')
  })

  it('has the source that its maps name', async () => {
    for (const map of ['node/index.js.map', 'node/index.d.ts.map', 'browser/pagehide.js.map']) {
      const { sources } = JSON.parse(await read(`dist/${map}`)) as { sources: string[] }
      expect(sources).toHaveLength(1)
      const folder = path.dirname(`dist/${map}`)
      for (const source of sources) expect(await read(path.join(folder, source))).toContain('export')
    }
  })

  it('compiles in a strict program for Node, whose types are checked too, and runs there', async () => {
    await project.addNodeTypes()
    const program = toProgram('@svc/client', '')
    const options = ['--module', 'nodenext', '--lib', 'es2023', '--types', 'node']
    expect(await project.compile('program.ts', program, options)).toBe('')
    const environment = { SVC_URL: service.url, SVC_API_KEY: service.apiKey, SVC_WORKSPACE: service.workspaceName }
    const compiled = await readFile(path.join(project.installed, '../../../program.js'), 'utf8')
    const ran = await project.run('program.js', compiled, environment)
    expect(ran).toMatchObject({ code: 0, stderr: '' })
    const told = JSON.parse(ran.stdout.trim().split('\n').at(-1) as string) as { key: string; errors: unknown[] }
    expect(told.errors).toEqual([])
    expect(await service.client.readPoints(told.key, 'loss', 1)).toHaveLength(1)
  })

  it.each([
    ['by its name', '@svc/client/browser', []],
    ['by the condition of bundlers', '@svc/client', ['--customConditions', 'browser']],
  ])('compiles in a strict program for pages without the types of Node: %s', async (_, from, options) => {
    expect(await project.compile('page.ts', toProgram(from, given), [...inPage, ...options])).toBe('')
  })

  it('refuses what is of Node in a page', async () => {
    const program = `import { Experiment } from '@svc/client/browser'
      Experiment.create({})
      Experiment.create({ ${given} flushOnSigterm: true }).logAsset('weights.bin')`
    const told = await project.compile('wrong.ts', program, inPage)
    expect(told.match(/error TS\d+/g)).toHaveLength(3)
  })
})
