import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/kit/eventually.ts'
import { openTestService } from '../../../test/kit/service.ts'
import { Experiment } from '../src/node/index.ts'
import { connectionTo, createTestLog } from './stored.ts'

let service: Awaited<ReturnType<typeof openTestService>>
let folder: string
beforeAll(async () => {
  service = await openTestService()
  folder = await mkdtemp(path.join(tmpdir(), 'svc-client-'))
})
afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true })
})

const create = (more = {}) => Experiment.create({ ...connectionTo(service), projectName: 'project', ...more })

async function readValues(call: string, experimentKey: string): Promise<Record<string, string>> {
  const { body } = await service.client.get(`/experiment/${call}?experimentKey=${experimentKey}`)
  const values = body.values as { name: string; valueCurrent: string }[]
  return Object.fromEntries(values.map((it) => [it.name, it.valueCurrent]))
}

async function readMetadata(experimentKey: string) {
  return (await service.client.get(`/experiment/metadata?experimentKey=${experimentKey}`)).body
}

describe('an experiment', () => {
  it('is made with its key known at once, and its link once it is there', async () => {
    const log = createTestLog()
    const experiment = create({ experimentName: 'first', log })
    expect(experiment.key).toMatch(/^[0-9a-f]{32}$/)
    expect(experiment.link).toBeUndefined()
    await experiment.flush()
    expect(experiment.link).toMatch(new RegExp(`/${service.workspaceName}/project/${experiment.key}$`))
    expect(log.lines).toEqual([`svc: the experiment is at ${experiment.link}`])
    expect(await readMetadata(experiment.key)).toMatchObject({ experimentName: 'first', projectName: 'project' })
    await experiment.end()
  })

  it('runs until it ends', async () => {
    const experiment = create()
    await eventually(async () => expect(await readMetadata(experiment.key)).toMatchObject({ running: true }))
    await experiment.end()
    const { endTimeMillis, startTimeMillis } = await readMetadata(experiment.key)
    expect(endTimeMillis).toBeGreaterThanOrEqual(startTimeMillis as number)
  })

  it('keeps every bit of a point: NaN, infinities, -0, steps of 64 bits', async () => {
    const experiment = create()
    const values = [1.5, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 5e-324, 2n ** 60n]
    const at = 1_700_000_000_123
    for (const [step, value] of values.entries()) {
      experiment.logMetric('odd', value, { step, epoch: 1, context: 'train', timestamp: at })
    }
    experiment.logMetric('large', 1, { step: 2n ** 63n - 1n, timestamp: new Date(at) })
    await experiment.end()
    expect(experiment.loggingErrors()).toEqual([])
    const points = await service.client.readPoints(experiment.key, 'odd', values.length)
    const found = points.sort((a, b) => (a.step as number) - (b.step as number)).map((it) => Number(it.metricValue))
    expect(found).toEqual([1.5, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 5e-324, 2 ** 60])
    expect(points[0]).toMatchObject({ timestamp: at, epoch: 1, runContext: 'train' })
    const query = `experimentKey=${experiment.key}&metricName=large`
    const { text } = await eventually(async () => {
      const answer = await service.client.get(`/experiment/metrics/get-metric?${query}`)
      expect(answer.text).toContain('"step"')
      return answer
    })
    expect(text).toContain('"step":9223372036854775807')
  })

  it('keeps parameters, others, tags, a name, texts and files', async () => {
    const file = path.join(folder, 'weights.bin')
    await writeFile(file, Buffer.of(0, 1, 2, 255))
    const experiment = create()
    experiment.logParameters({ rate: 0.001, layers: 3, name: 'adam', nesterov: true, seed: 2n ** 60n })
    experiment.logOthers({ note: 'hello', dataset: 'digits' })
    experiment.setName('renamed')
    experiment.addTags(['a', 'b'])
    experiment.logMetrics({ loss: 0.5, accuracy: 0.75 }, { step: 7 })
    experiment.logText('what the model said', { step: 3, metadata: { temperature: 0.5 } })
    experiment.logAsset(file, { type: 'model-element' })
    experiment.logAsset(new TextEncoder().encode('bytes'), { name: 'notes.txt', metadata: { a: 1 } })
    await experiment.end()
    expect(experiment.loggingErrors()).toEqual([])
    expect(await readValues('parameters', experiment.key)).toEqual({
      rate: '0.001',
      layers: '3',
      name: 'adam',
      nesterov: 'true',
      seed: '1152921504606846976',
    })
    expect(await readValues('log-other', experiment.key)).toEqual({ note: 'hello', dataset: 'digits', Name: 'renamed' })
    const { body } = await service.client.get(`/experiment/tags?experimentKey=${experiment.key}`)
    expect(body.tags).toEqual(['a', 'b'])
    const [point] = await service.client.readPoints(experiment.key, 'accuracy', 1)
    expect(point).toMatchObject({ metricValue: '0.75', step: 7 })
    const listed = await service.client.get(`/experiment/asset/list?experimentKey=${experiment.key}&type=all`)
    const assets = listed.body.assets as {
      assetId: string
      fileName: string
      type: string
      metadata: string
      step: number
    }[]
    expect(assets.map((it) => [it.fileName, it.type]).sort()).toEqual([
      ['notes.txt', 'asset'],
      ['text-sample.txt', 'text-sample'],
      ['weights.bin', 'model-element'],
    ])
    const text = assets.find((it) => it.type === 'text-sample')
    expect([text?.metadata, text?.step]).toEqual(['{"temperature":0.5}', 3])
    const read = `/experiment/asset/get-asset?experimentKey=${experiment.key}&assetId=${text?.assetId}`
    expect((await service.client.get(read)).text).toBe('what the model said')
  })

  it('is gone on with by its key', async () => {
    const first = create()
    first.logMetric('loss', 1, { step: 1 })
    await first.end()
    const second = Experiment.continue(first.key, connectionTo(service))
    second.logMetric('loss', 0.5, { step: 2 })
    await second.end()
    expect(second.loggingErrors()).toEqual([])
    const points = await service.client.readPoints(first.key, 'loss', 2)
    expect(points.map((it) => it.metricValue).sort()).toEqual(['0.5', '1.0'])
  })
})

describe('what is wrong', () => {
  it('is told in one clear line, and the next call is logged', async () => {
    const log = createTestLog()
    const experiment = create({ log })
    await experiment.flush()
    log.lines.length = 0
    // @ts-expect-error
    experiment.logMetric('loss', 'high')
    // @ts-expect-error
    experiment.logMetric(7, 1)
    experiment.logMetric('loss', 1, { step: 1.5 })
    experiment.logMetric('loss', 1, { timestamp: 1_700_000_000 })
    // @ts-expect-error
    experiment.logParameter('layers', [1, 2])
    experiment.logAsset('/nowhere/weights.bin')
    // @ts-expect-error
    experiment.logText(undefined)
    experiment.logMetric('loss', 0.5)
    await experiment.end()
    experiment.logMetric('late', 1)
    const told = [
      'the value of a metric must be a number, not "high"',
      'a name must be a string that is not empty, not number',
      'step: must be an integer of 64 bits (a bigint beyond 2^53), not 1.5',
      'timestamp: must be milliseconds since the Unix epoch, or a Date, not 1700000000',
      'a value must be a string, a number or a boolean, not object',
      'the file /nowhere/weights.bin cannot be read: it is not there',
      'a text must be a string, not undefined',
      'nothing can be logged after end',
    ]
    expect(experiment.loggingErrors().map((it) => it.message)).toEqual(told)
    expect(log.lines.map((it) => it.replace(/^svc: (.*) \[.*\]$/, '$1'))).toEqual(told)
    expect(await service.client.readPoints(experiment.key, 'loss', 1)).toHaveLength(1)
  })

  it('is told by the name of the parameter, and the others of its request are kept', async () => {
    const wrong = 'n'.repeat(1_001)
    const experiment = create()
    for (let at = 0; at < 9; at++) experiment.logParameter(at === 6 ? wrong : `parameter ${at}`, at)
    await experiment.end()
    const [error, ...more] = experiment.loggingErrors()
    expect(error).toMatchObject({
      message: expect.stringMatching(/which is given up: values\[0\]\.parameterName: /),
      affected: [wrong],
    })
    expect(more).toEqual([])
    expect(Object.values(await readValues('parameters', experiment.key)).sort()).toEqual([...'01234578'])
  })

  it('is refused at once where nothing could ever be logged', () => {
    expect(() => create({ apiKey: '' })).toThrow(/^apiKey: is missing: pass it, or set SVC_API_KEY/)
    expect(() => create({ url: 'localhost' })).toThrow(
      /^url: must be an address like http:\/\/127.0.0.1:8080, not "localhost"/,
    )
    expect(() => create({ queueBytesMax: -1 })).toThrow('queueBytesMax: must be a number above 0, not -1')
    expect(() => Experiment.continue('', connectionTo(service))).toThrow(/^experimentKey: is missing/)
  })

  it('is told when the key, the workspace or the experiment is unknown', async () => {
    const wrongKey = create({ apiKey: 'wrong' })
    await wrongKey.end()
    const [error] = wrongKey.loggingErrors()
    expect(error?.message).toMatch(
      /given up: This API key is not registered. Pass the key as apiKey, or set SVC_API_KEY/,
    )
    const nowhere = create({ workspaceName: 'nowhere' })
    nowhere.logMetric('loss', 1)
    await nowhere.end()
    expect(nowhere.loggingErrors()[0]?.message).toMatch(/given up: .*workspace "nowhere"/)
  })
})
