import zlib from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Database, openDatabase } from '../../../../store/postgres/database.ts'
import { codes } from '../../../api/http-error.ts'
import { kindOf, readStoredEvents } from '../../../kit/clients/monitoring.ts'
import { eventually } from '../../../kit/eventually.ts'
import { openTestService, storesWith, uniqueName } from '../../../kit/service.ts'

const stores = storesWith('postgres')
let service: Awaited<ReturnType<typeof openTestService>>
let database: Database
beforeAll(async () => {
  service = await openTestService({ stores })
  database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
})
afterAll(async () => {
  await service?.close()
  await database?.close()
})

type Line = Record<string, unknown>
/** The calls are /mpm/v2/data/events/csv, /mpm/v2/data/labels/csv and /mpm/v2/dataset/events/csv. */
type Sent = {
  path?: string
  /** In their order; `file` among them. */
  parts?: [name: string, value: string][]
  query?: Record<string, string>
  headers?: Record<string, string>
  fileName?: string
  gzip?: boolean
}

/** A form, sent as a client of HTTP would send it. */
async function upload(text: string, { path = 'data/events', fileName = 'events.csv', ...sent }: Sent) {
  const parts: [string, string][] = sent.parts ?? [['file', '']]
  const boundary = 'a-boundary'
  const body = parts
    .map(([name, value]) =>
      name === 'file'
        ? `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="${fileName}"\r\ncontent-type: text/csv\r\n\r\n${text}\r\n`
        : `--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
    )
    .join('')
  const whole = Buffer.from(`${body}--${boundary}--\r\n`)
  const answer = await fetch(`${service.url}/mpm/v2/${path}/csv?${new URLSearchParams(sent.query ?? {})}`, {
    method: 'POST',
    headers: {
      authorization: service.apiKey,
      'content-type': `multipart/form-data; boundary=${boundary}`,
      ...(sent.gzip && { 'content-encoding': 'gzip' }),
      ...sent.headers,
    },
    body: sent.gzip ? zlib.gzipSync(whole) : whole,
  })
  const lines = (await answer.text())
    .trim()
    .split('\n')
    .map((it) => JSON.parse(it) as Line)
  return { status: answer.status, type: answer.headers.get('content-type'), lines, last: lines.at(-1) as Line }
}

const target = (modelName: string, more: Record<string, string> = {}) => ({
  workspaceName: service.workspaceName,
  modelName,
  modelVersion: '3',
  ...more,
})

const toParts = (fields: Record<string, string>): [string, string][] => [...Object.entries(fields), ['file', '']]

async function findModel(modelName: string): Promise<bigint> {
  const row = await database.row<{ id: bigint }>(
    'SELECT m.id FROM monitored_models m JOIN workspaces w ON w.id = m.workspace_id WHERE w.name = $1 AND m.name = $2',
    [service.workspaceName, modelName],
  )
  return row?.id ?? 0n
}

async function read(modelName: string, count: number) {
  const id = await findModel(modelName)
  return await eventually(async () => {
    const events = await readStoredEvents(stores.clickhouseUrl, id)
    if (events.length < count || events.some((it) => it.values.length === 0)) {
      throw new Error(`${events.length} events of ${count} are there`)
    }
    return events
  })
}

const time = 1_700_000_000_000

it('a file becomes events: features, predictions and labels by the prefixes of their columns', async () => {
  const modelName = uniqueName('model')
  const text =
    '\ufefftimestamp,predictionId,feature_age,"feature_a ""b"", c",prediction_value,prediction_probability,label_value_paid,note\r\n' +
    `${time},p1,42,"x, y",1.0,0.5,true,z\r\n` +
    `${time + 1},p2,NA,,no,,,\r\n`
  const answer = await upload(text, { parts: toParts(target(modelName)) })
  expect(answer.status).toBe(200)
  expect(answer.type).toBe('application/x-ndjson')
  expect(answer.lines[0]).toEqual({ lines: 0, accepted: 0, duplicates: 0, rejected: 0, ignoredColumns: ['note'] })
  expect(answer.last).toEqual({
    msg: 'Saved',
    code: 200,
    data: null,
    sdk_error_code: 0,
    done: true,
    lines: 2,
    accepted: 2,
    duplicates: 0,
    rejected: 0,
    labels: { accepted: 1, duplicates: 0 },
    faults: [],
  })
  const events = await read(modelName, 3)
  expect(events.map((it) => [it.kind, it.predictionId, it.version, it.timestamp, it.values])).toEqual([
    [kindOf('EVENTS'), 'p1', '3', time, ['1 a "b", c 4 0 x, y', '1 age 1 42 ', '2 probability 2 0.5 ', '2 value 2 1 ']],
    [kindOf('EVENTS'), 'p2', '3', time + 1, ['1 a "b", c 0 0 ', '1 age 0 0 ', '2 probability 0 0 ', '2 value 4 0 no']],
    [kindOf('LATE_LABELS'), 'p1', '3', time, ['3 paid 3 1 ']],
  ])
})

it('the caller chooses the strings for missing values', async () => {
  const text = 'predictionId,feature_a\n1,-\n2,NA\n3,\n4,7\n'
  const typesWith = async (fields: Record<string, string>) => {
    const modelName = uniqueName('model')
    expect((await upload(text, { query: target(modelName, fields) })).last).toMatchObject({ accepted: 4 })
    return (await read(modelName, 4)).map((it) => it.values[0]?.split(' ')[2])
  }
  expect(await typesWith({})).toEqual(['4', '0', '0', '1'])
  expect(await typesWith({ NAValues: '-,7' })).toEqual(['0', '0', '0', '0'])
  expect(await typesWith({ NAValues: '-', keepDefaultNAValues: 'True' })).toEqual(['0', '0', '0', '1'])
  expect(await typesWith({ NAValues: '-', keepDefaultNAValues: 'False' })).toEqual(['0', '4', '4', '1'])
})

it('a line without a time gets the time of arrival; one without an id gets the same id in each upload', async () => {
  const modelName = uniqueName('model')
  const text = `feature_a,feature_b\n${Array.from({ length: 3_000 }, (_, at) => `${at % 7},x`).join('\n')}\n`
  const before = Date.now()
  expect((await upload(text, { query: target(modelName) })).last).toMatchObject({ accepted: 3_000, duplicates: 0 })
  expect((await upload(text, { query: target(modelName) })).last).toMatchObject({ accepted: 0, duplicates: 3_000 })
  const events = await read(modelName, 3_000)
  expect(events.every((it) => it.timestamp >= before && it.timestamp <= Date.now())).toBe(true)
  expect(events[0]?.predictionId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  // Another file, or another Idempotency-Key, is another upload.
  const other = await upload(text, { query: target(modelName), fileName: 'other.csv' })
  expect(other.last).toMatchObject({ accepted: 3_000 })
  const keyed = () => upload(text, { query: target(modelName), headers: { 'idempotency-key': 'k' } })
  expect((await keyed()).last).toMatchObject({ accepted: 3_000 })
  expect((await keyed()).last).toMatchObject({ accepted: 0, duplicates: 3_000 })
})

it('the first line of a repeated id is stored', async () => {
  const modelName = uniqueName('model')
  const lines = Array.from({ length: 10_000 }, (_, at) => `${at % 5_000},${at}`)
  const answer = await upload(`predictionId,feature_at\n${lines.join('\n')}`, { query: target(modelName) })
  expect(answer.last).toMatchObject({ lines: 10_000, accepted: 5_000, duplicates: 5_000 })
  const events = await read(modelName, 5_000)
  expect(events.filter((it) => it.values[0] !== `1 at 1 ${it.predictionId} `)).toEqual([])
})

it('an invalid line is reported with its number, and the others are stored', async () => {
  const modelName = uniqueName('model')
  const wrong = [
    [3, `${time},3`, /^has 2 values, but there are 4 columns/],
    [4, `${time / 1000},4,1,0.5`, /^timestamp: is in the year 1970/],
    [5, `${time * 1000},5,1,0.5`, /^timestamp: is after the year 5138/],
    [6, `${time},6,1,1.5`, /^prediction_probability: must be a number from 0 to 1/],
    [7, `${time},"7"x,1,0.5`, /^after a value in quotes/],
    [8, `${time},8,"never closed,0.5`, /./],
  ] as const
  const text = [
    'timestamp,predictionId,feature_a,prediction_probability',
    `${time},2,1,0.5`,
    ...wrong.map(([, line]) => line),
    `${time},9,1,1`,
    `${time},10,"1",0`,
  ].join('\r\n')
  const answer = await upload(text, { query: target(modelName) })
  expect(answer.last).toMatchObject({ code: 200, lines: 9, accepted: 3, rejected: 6 })
  const told = answer.lines.filter((it) => 'line' in it)
  expect(told).toEqual(wrong.map(([line, , msg]) => ({ line, msg: expect.stringMatching(msg) })))
  expect((answer.last.faults as Line[]).map((it) => it.line)).toEqual([3, 4, 5, 6, 7, 8])
  expect((await read(modelName, 3)).map((it) => it.predictionId).toSorted()).toEqual(['10', '2', '9'])
  await eventually(async () => {
    const query = new URLSearchParams({ workspaceName: service.workspaceName, modelName })
    const { errors } = (await service.client.get(`/mpm/v2/errors?${query}`)).body as { errors: Line[] }
    expect(errors.map((it) => it.sample).toSorted()).toEqual(wrong.map(([line]) => `line ${line}`))
  })
})

it('labels of a file, and those that have none', async () => {
  const modelName = uniqueName('model')
  const text = 'predictionId,label_value_y\na,1\nb,\n,2\n'
  const answer = await upload(text, { path: 'data/labels', query: target(modelName) })
  expect(answer.last).toMatchObject({ accepted: 1, rejected: 2, labels: { accepted: 1 } })
  expect((answer.last.faults as Line[]).map((it) => [it.line, it.field, it.msg])).toEqual([
    [3, '', 'has no label'],
    [4, 'predictionId', 'is missing'],
  ])
  expect((await read(modelName, 1)).map((it) => [it.kind, it.predictionId, it.values])).toEqual([
    [kindOf('LATE_LABELS'), 'a', ['3 y 1 1 ']],
  ])
})

it('a reference set is a model of its own, with its labels, and remembers what it is for', async () => {
  const [modelName, datasetName] = [uniqueName('model'), uniqueName('set')]
  const text = 'predictionId,feature_a,label_value_y\n1,2,3\n'
  const answer = await upload(text, { path: 'dataset/events', query: target(modelName, { datasetName }) })
  expect(answer.last).toMatchObject({ accepted: 1 })
  expect((await read(datasetName, 1)).map((it) => [it.kind, it.values])).toEqual([
    [kindOf('TRAINING_EVENTS'), ['1 a 1 2 ', '3 y 1 3 ']],
  ])
  expect(await findModel(modelName)).toBe(0n)
  const sets = await database.rows('SELECT model_name, model_version FROM reference_sets WHERE data_set_id = $1', [
    await findModel(datasetName),
  ])
  expect(sets).toEqual([{ model_name: modelName, model_version: '3' }])
  const query = { workspaceName: service.workspaceName, modelName: datasetName, predictionId: '1' }
  const read1 = await service.client.get(
    `/mpm/v2/event?${new URLSearchParams({ ...query, datasetType: 'TRAINING_EVENTS' })}`,
  )
  expect(read1.body.labels).toEqual([{ name: 'y', type: 'integer', value: 3 }])
})

describe('how it is sent', () => {
  const text = 'predictionId,feature_a\n1,2\n'

  it('gzip, a raw body, fields in the query, and after a small file', async () => {
    const models = Array.from({ length: 3 }, () => uniqueName('model'))
    expect((await upload(text, { gzip: true, parts: toParts(target(models[0] as string)) })).last).toMatchObject({
      accepted: 1,
    })
    const raw = await fetch(
      `${service.url}/mpm/v2/data/events/csv?${new URLSearchParams(target(models[1] as string))}`,
      {
        method: 'POST',
        headers: { authorization: service.apiKey, 'content-type': 'text/csv' },
        body: text,
      },
    )
    expect(await raw.text()).toContain('"accepted":1')
    const after = toParts(target(models[2] as string)).toReversed()
    expect((await upload(text, { parts: after })).last).toMatchObject({ code: 200, accepted: 1 })
  })

  it('fields after a large file are too late, and the error says so', async () => {
    const modelName = uniqueName('model')
    const large = `predictionId,feature_a\n${Array.from({ length: 40_000 }, (_, at) => `${at},${'x'.repeat(40)}`).join('\n')}\n`
    const after = await upload(large, { parts: toParts(target(modelName)).toReversed() })
    expect([after.status, after.last.msg]).toEqual([
      400,
      expect.stringMatching(/^workspaceName: is missing \(as a field/),
    ])
    const late = await upload(large, {
      parts: [...toParts(target(modelName)), ['NAValues', '-']],
    })
    expect(late.last).toMatchObject({
      code: 400,
      done: true,
      accepted: 40_000,
      msg: expect.stringMatching(/^NAValues: came after the file/),
    })
  })

  it.each<[string, string, Sent & { fields?: Record<string, string> }, RegExp]>([
    ['no workspace', text, { fields: { workspaceName: '' } }, /^workspaceName: is missing/],
    ['no model', text, { fields: { modelName: '' } }, /^modelName: is missing/],
    ['no data set', text, { path: 'dataset/events' }, /^datasetName: is missing/],
    ['no file', text, { parts: [['x', 'y']] }, /^file: is missing/],
    ['an empty file', '', {}, /^file: is empty/],
    ['a flag that is none', text, { fields: { keepDefaultNAValues: 'maybe' } }, /^keepDefaultNAValues: expected true/],
    ['a column twice', 'feature_a,feature_a\n1,2\n', {}, /column "feature_a" appears twice/],
    ['a column without a name', 'feature_,predictionId\n1,2\n', {}, /name must not be empty/],
    ['columns that nothing is known of', 'a,b\n1,2\n', {}, /none of timestamp, predictionId/],
    ['labels without an id', 'label_value_a\n1\n', { path: 'data/labels' }, /predictionId is missing/],
    ['labels without labels', 'predictionId\n1\n', { path: 'data/labels' }, /no column label_value_/],
  ])('%s is refused', async (_what, content, { fields, ...sent }, msg) => {
    const answer = await upload(content, { query: target('refused', fields), ...sent })
    expect([answer.status, answer.type, answer.last]).toEqual([
      400,
      'application/json',
      { msg: expect.stringMatching(msg), code: 400, data: null, sdk_error_code: codes.badRequest },
    ])
  })

  it('a workspace that the key may not use is rejected', async () => {
    const answer = await upload(text, { query: { ...target('refused'), workspaceName: 'nowhere' } })
    expect([answer.status, answer.last.sdk_error_code]).toEqual([400, codes.workspaceUnknown])
  })
})
