import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, uniqueName } from '../../../test/kit/service.ts'
import { MonitoringLogger } from '../src/node/index.ts'
import { connectionTo, createTestLog, expectCounts, expectEvent } from './stored.ts'

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

function open(more = {}) {
  const modelName = uniqueName('model')
  const log = createTestLog()
  const logger = new MonitoringLogger({ ...connectionTo(service, log), modelName, ...more })
  return { logger, log, model: { workspaceName: service.workspaceName, modelName } }
}

describe('an event', () => {
  it('is read as it was logged, each value with its type', async () => {
    const { logger, model } = open({ modelVersion: '2' })
    logger.logEvent({
      predictionId: 'order-17',
      inputFeatures: {
        age: 42,
        income: 1234.5,
        member: true,
        country: 'NL',
        big: 2n ** 80n,
        nan: Number.NaN,
        none: null,
      },
      outputValue: 'ok',
      outputProbability: 0.75,
      outputFeatures: { rank: 3 },
      labels: { fraud: false },
      timestamp: 1_700_000_000_123,
    })
    await logger.end()
    expect(logger.loggingErrors()).toEqual([])
    await expectEvent(
      service.client,
      { ...model, predictionId: 'order-17' },
      {
        features: {
          age: ['integer', 42],
          income: ['float', 1234.5],
          member: ['boolean', true],
          country: ['string', 'NL'],
          big: ['integer', 2 ** 80],
          nan: ['missing', null],
          none: ['missing', null],
        },
        prediction: { value: ['string', 'ok'], probability: ['float', 0.75], rank: ['integer', 3] },
        labels: { fraud: ['boolean', false] },
        timestamp: 1_700_000_000_123,
        modelVersion: '2',
      },
    )
  })

  it('gets its labels before it or after it', async () => {
    const { logger, model } = open()
    logger.logLabel({ predictionId: 'late', labels: { value: 0 } })
    logger.logEvent({ predictionId: 'late', inputFeatures: { x: 2 } })
    logger.logEvent({ predictionId: 'early' })
    logger.logLabel({ predictionId: 'early', labels: { value: 1 } })
    await logger.end()
    expect(logger.loggingErrors()).toEqual([])
    await expectCounts(service.client, model, { events: 2, labels: 2 })
    const want = { features: { x: ['integer', 2] }, labels: { value: ['integer', 0] } }
    await expectEvent(service.client, { ...model, predictionId: 'late' }, want)
  })

  it('goes out when a batch is full, or has waited long enough', async () => {
    const bySize = open({ batchSize: 10, batchWaitMs: 3_600_000 })
    for (let it = 0; it < 25; it++) bySize.logger.logEvent({ predictionId: `event ${it}` })
    await expectCounts(service.client, bySize.model, { events: 20 })
    const byTime = open({ batchWaitMs: 50 })
    byTime.logger.logEvent({ predictionId: 'one' })
    await expectCounts(service.client, byTime.model, { events: 1 })
    await Promise.all([bySize.logger.end(), byTime.logger.end()])
    await expectCounts(service.client, bySize.model, { events: 25 })
  })

  it('that is wrong is told with its prediction id, and costs no other', async () => {
    const { logger, model } = open()
    logger.logEvent({ predictionId: 'infinite', inputFeatures: { x: Number.POSITIVE_INFINITY } })
    // @ts-expect-error
    logger.logEvent({ predictionId: 'nested', inputFeatures: { x: { y: 1 } } })
    // @ts-expect-error
    logger.logEvent({ predictionId: 7 })
    // @ts-expect-error
    logger.logEvent()
    logger.logEvent({ predictionId: 'sure', outputProbability: 2 })
    logger.logEvent({ predictionId: 'twice', outputValue: 1, outputFeatures: { value: 2 } })
    logger.logEvent({ predictionId: 'seconds', timestamp: 1_700_000_000 })
    logger.logLabel({ predictionId: 'none', labels: { x: null } })
    logger.logEvent({ predictionId: 'nul', inputFeatures: { x: 'a\0b' } })
    logger.logEvent({ predictionId: 'good' })
    logger.logEvent({ predictionId: 'good' })
    await logger.end()
    const told = logger.loggingErrors()
    expect(told.map((it) => it.message)).toEqual([
      'inputFeatures.x: is infinite, which no event can hold: give null where there is no value',
      'inputFeatures.x: expected a number, a bigint, a boolean or a string, not object',
      'predictionId: must be a string that is not empty',
      expect.stringContaining('undefined'),
      'outputProbability: must be a number from 0 to 1, not 2',
      'outputValue: "value" is given a second time, in outputFeatures: give it in one place',
      'timestamp: must be milliseconds since the Unix epoch, or a Date, not 1700000000',
      'labels: there is none: pass an object of names and values',
      expect.stringMatching(/^the service rejected an event: features.x: /),
      'an event or labels of this prediction id were there already: the first are kept',
    ])
    expect(told[8]?.affected).toEqual(['nul'])
    await expectCounts(service.client, model, { events: 1 })
  })
})

describe('a file', () => {
  const write = async (text: string, name = 'events.csv') => {
    const file = path.join(folder, name)
    await writeFile(file, text)
    return file
  }

  it('is stored line by line, and once however often it is sent', async () => {
    const { logger, log, model } = open()
    const lines = ['feature_x,feature_pad', ...Array.from({ length: 1_000 }, (_, it) => `${it},${'x'.repeat(3_000)}`)]
    lines[900] = 'surplus,1,2'
    const file = await write(lines.join('\n'))
    await logger.uploadDatasetCsv(file, { datasetType: 'EVENTS' })
    expect(log.lines.at(-1)).toBe('svc: events.csv: all 1000 lines are stored: 999 new, 0 there already, 1 rejected')
    expect(logger.loggingErrors()).toMatchObject([{ affected: ['line 901'] }])
    await logger.uploadDatasetCsv(file, { datasetType: 'EVENTS' })
    expect(log.lines.at(-1)).toBe('svc: events.csv: all 1000 lines are stored: 0 new, 999 there already, 1 rejected')
    await expectCounts(service.client, model, { events: 999 })
  })

  it('has the missing values that were asked for', async () => {
    const { logger, model } = open()
    const file = await write('predictionId,feature_a,feature_b\none,-1,NaN\n')
    await logger.uploadDatasetCsv(file, { datasetType: 'EVENTS', naValues: ['-1'], keepDefaultNaValues: false })
    const features = { a: ['missing', null], b: ['float', 'NaN'] }
    await expectEvent(service.client, { ...model, predictionId: 'one' }, { features })
  })

  it('may be a reference, and has to have its name then', async () => {
    const { logger, model } = open()
    const file = await write('predictionId,feature_x\na,1\n')
    await logger.uploadDatasetCsv(file, { datasetType: 'TRAINING_EVENTS' })
    expect(logger.loggingErrors()[0]?.message).toBe(
      'uploadDatasetCsv: datasetName: is missing: TRAINING_EVENTS need one',
    )
    const datasetName = uniqueName('dataset')
    await logger.uploadDatasetCsv(file, { datasetType: 'TRAINING_EVENTS', datasetName })
    await expectCounts(service.client, { ...model, modelName: datasetName }, { trainingEvents: 1 })
  })

  it('that is not there is told', async () => {
    const { logger } = open()
    await logger.uploadDatasetCsv('/nowhere.csv', { datasetType: 'EVENTS' })
    expect(logger.loggingErrors()[0]?.message).toMatch(/^uploadDatasetCsv: ENOENT/)
  })
})
