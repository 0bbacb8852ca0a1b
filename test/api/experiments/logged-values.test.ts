import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseExactJson } from '../../../http/body/exact-json.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { eventually } from '../../kit/eventually.ts'
import { storesWith } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
let experimentKey: string
beforeAll(async () => {
  service = await openTwoUsers()
})
beforeAll(async () => {
  experimentKey = await service.client.createExperiment()
})
afterAll(() => service?.close())

const saved = '{"msg":"Saved","code":200,"data":null,"sdk_error_code":0}'

type Value = { name: string; valueCurrent: string; timestampCurrent: number; stepCurrent: number | null }

async function readValues(path: 'parameters' | 'log-other', key = experimentKey): Promise<Value[]> {
  const answer = await service.client.get(`/experiment/${path}?experimentKey=${key}`)
  expect(answer.headers.get('content-type')).toBe('application/json')
  return answer.body.values as Value[]
}

async function logParameter(fields: Record<string, unknown>) {
  const answer = await service.client.post('/write/experiment/parameter', { experimentKey, ...fields })
  expect(answer.text).toBe(saved)
}

/** A text that no compression makes smaller, of three bytes for each character. */
const wideText = (length: number) =>
  Array.from({ length }, (_, at) => String.fromCharCode(0x4e00 + ((at * 7_919 + (at >> 3) * 104_729) % 20_000))).join(
    '',
  )

describe('experiment/parameter', () => {
  it('keeps the last value, with its step and time, in every field of the summary', async () => {
    await logParameter({ parameterName: 'rate', parameterValue: 0.1, step: 3, timestamp: 1_000 })
    await logParameter({ parameterName: 'rate', parameterValue: '0.01', step: 5, timestamp: 500 })

    const values = await readValues('parameters')

    expect(values.filter((it) => it.name === 'rate')).toEqual([
      {
        name: 'rate',
        valueMax: '0.01',
        valueMin: '0.01',
        valueCurrent: '0.01',
        timestampMax: 500,
        timestampMin: 500,
        timestampCurrent: 500,
        runContextMax: null,
        runContextMin: null,
        runContextCurrent: null,
        stepMax: 5,
        stepMin: 5,
        stepCurrent: 5,
        editable: false,
      },
    ])
  })

  it.each([
    ['text', 'text'],
    ['', ''],
    [' two\nlines “quoted” \u{1f600}', ' two\nlines “quoted” \u{1f600}'],
    [true, 'true'],
    [false, 'false'],
    [0, '0'],
    [1e-7, '1e-7'],
    ['NaN', 'NaN'],
  ])('gives %j back as the string %j', async (parameterValue, expected) => {
    await logParameter({ parameterName: 'kind', parameterValue })

    expect((await readValues('parameters')).find((it) => it.name === 'kind')?.valueCurrent).toBe(expected)
  })

  it.each(['-0', '9007199254740993', '123456789012345678901234567890', '-9223372036854775808'])(
    'keeps the number %s to the last digit',
    async (digits) => {
      const body = `{"experimentKey":"${experimentKey}","parameterName":"digits","parameterValue":${digits}}`
      await service.client.postRaw('/write/experiment/parameter', body)

      expect((await readValues('parameters')).find((it) => it.name === 'digits')?.valueCurrent).toBe(digits)
    },
  )

  it.each([-(2n ** 63n), -1n, 0n, 2n ** 53n + 1n, 2n ** 63n - 1n])('keeps the step %i exactly', async (step) => {
    const fields = {
      experimentKey,
      parameterName: 'far',
      parameterValue: 1,
      step: String(step),
      timestamp: String(step),
    }
    await service.client.post('/write/experiment/parameter', fields)

    const { text } = await service.client.get(`/experiment/parameters?experimentKey=${experimentKey}`)
    const { values } = parseExactJson(text) as {
      values: { name: string; stepCurrent: bigint; timestampCurrent: bigint }[]
    }
    const far = values.find((it) => it.name === 'far')
    expect([far?.stepCurrent, far?.timestampCurrent].map((it) => BigInt(it ?? 99))).toEqual([step, step])
  })

  it('without a time it has the time of arrival, without a step none', async () => {
    const before = Date.now()
    await logParameter({ parameterName: 'now', parameterValue: 1 })

    const value = (await readValues('parameters')).find((it) => it.name === 'now')
    expect(value?.stepCurrent).toBeNull()
    expect(value?.timestampCurrent).toBeGreaterThanOrEqual(before)
    expect(value?.timestampCurrent).toBeLessThanOrEqual(Date.now())
  })

  it('a long name is stored, and one too long for an index is rejected by name', async () => {
    await logParameter({ parameterName: wideText(833), parameterValue: 1 })
    expect((await readValues('parameters')).map((it) => it.name)).toContain(wideText(833))

    const post = (parameterName: string) =>
      service.client.post('/write/experiment/parameter', { experimentKey, parameterName, parameterValue: 1 })
    const inBytes = 'parameterName: must have 2500 bytes or fewer in UTF-8'
    expectRefusal(await post(wideText(834)), 400, codes.badRequest, inBytes)
    expectRefusal(await post(wideText(1_000)), 400, codes.badRequest, inBytes)
    expectRefusal(
      await post('x'.repeat(1_001)),
      400,
      codes.badRequest,
      'parameterName: must have 1000 characters or fewer',
    )
  })

  it.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty'])(
    'takes %s as a name like any other',
    async (name) => {
      const body = `{"experimentKey":"${experimentKey}","parameterName":"${name}","parameterValue":1,"${name}":{"any":1}}`

      expect((await service.client.postRaw('/write/experiment/parameter', body)).text).toBe(saved)
      expect((await readValues('parameters')).map((it) => it.name)).toContain(name)
    },
  )

  it('values of a million characters are stored, and longer ones rejected by name', async () => {
    const parameterValue = 'é'.repeat(1_000_000)
    await logParameter({ parameterName: 'long', parameterValue })
    expect((await readValues('parameters')).find((it) => it.name === 'long')?.valueCurrent).toBe(parameterValue)

    const fields = { experimentKey, parameterName: 'long', parameterValue: `${parameterValue}x` }
    const longer = await service.client.post('/write/experiment/parameter', fields)
    expectRefusal(longer, 400, codes.badRequest, 'parameterValue: must have 1000000 characters or fewer')
  })
})

describe('experiment/log-other', () => {
  it('a new experiment has exactly one other: its name', async () => {
    const key = await service.client.createExperiment({ experimentName: 'at first' })

    expect(await readValues('log-other', key)).toEqual([
      expect.objectContaining({ name: 'Name', valueMin: 'at first', valueMax: 'at first', valueCurrent: 'at first' }),
    ])
    expect(await readValues('parameters', key)).toEqual([])
  })

  it('logging Name renames the experiment', async () => {
    const key = await service.client.createExperiment({ experimentName: 'before' })

    const answer = await service.client.post('/write/experiment/log-other', {
      experimentKey: key,
      key: 'Name',
      value: 'after',
    })

    expect(answer.text).toBe(saved)
    const { body } = await service.client.get(`/experiment/metadata?experimentKey=${key}`)
    expect(body.experimentName).toBe('after')
    expect((await readValues('log-other', key)).map((it) => [it.name, it.valueCurrent])).toEqual([['Name', 'after']])
  })

  it('a parameter called Name renames nothing, and is separate from the other of that name', async () => {
    const key = await service.client.createExperiment({ experimentName: 'stays' })
    await service.client.post('/write/experiment/parameter', {
      experimentKey: key,
      parameterName: 'Name',
      parameterValue: 'p',
    })

    const { body } = await service.client.get(`/experiment/metadata?experimentKey=${key}`)
    expect(body.experimentName).toBe('stays')
    expect((await readValues('log-other', key)).map((it) => it.valueCurrent)).toEqual(['stays'])
    expect((await readValues('parameters', key)).map((it) => it.valueCurrent)).toEqual(['p'])
  })

  it('concurrent renames leave one name, the same in both places', async () => {
    const key = await service.client.createExperiment()

    await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        service.client.post('/write/experiment/log-other', { experimentKey: key, key: 'Name', value: `name ${at}` }),
      ),
    )

    const { body } = await service.client.get(`/experiment/metadata?experimentKey=${key}`)
    expect((await readValues('log-other', key)).map((it) => it.valueCurrent)).toEqual([body.experimentName])
  })
})

describe('experiment/tags', () => {
  const readTags = async (key: string) => (await service.client.get(`/experiment/tags?experimentKey=${key}`)).body

  it('adds tags in the order given, and never replaces', async () => {
    const key = await service.client.createExperiment()
    const add = (addedTags: unknown) => service.client.post('/write/experiment/tags', { experimentKey: key, addedTags })

    expect((await add(['z', 'a', 'm'])).text).toBe(saved)
    await add(['b', 'a', 'b'])
    await add([])
    await add(null)

    expect(await readTags(key)).toEqual({ tags: ['z', 'a', 'm', 'b'] })
  })

  it('an invalid tag is named, and nothing of its request is stored', async () => {
    const key = await service.client.createExperiment()
    const add = (addedTags: unknown) => service.client.post('/write/experiment/tags', { experimentKey: key, addedTags })

    expectRefusal(await add(['good', 5]), 400, codes.badRequest, 'addedTags[1]: expected a string')
    expectRefusal(await add(['good', '']), 400, codes.badRequest, 'addedTags[1]: must not be empty')
    expectRefusal(
      await add(['good', 'x'.repeat(501)]),
      400,
      codes.badRequest,
      'addedTags[1]: must have 500 characters or fewer',
    )
    expectRefusal(
      await add(Array(1_001).fill('x')),
      400,
      codes.badRequest,
      'addedTags: must have 1000 entries or fewer',
    )

    expect(await readTags(key)).toEqual({ tags: [] })
  })

  it('a thousand long tags at once are kept', async () => {
    const key = await service.client.createExperiment()
    const addedTags = Array.from({ length: 1_000 }, (_, at) => `${at} ${wideText(490)}`)

    await service.client.post('/write/experiment/tags', { experimentKey: key, addedTags })

    expect(await readTags(key)).toEqual({ tags: addedTags })
  })
})

describe('clientlib/batch/logger/experiment/parameter', () => {
  const logBatch = (key: string, values: object[]) =>
    service.client.post('/clientlib/batch/logger/experiment/parameter', { experimentKey: key, values })

  it('stores a batch, of which the last value of a name counts; wrong ones are told, and the others stored', async () => {
    const key = await service.client.createExperiment()
    const many = Array.from({ length: 500 }, (_, at) => ({ parameterName: `p${at}`, parameterValue: at, step: at }))
    expect((await logBatch(key, many)).text).toBe(saved)
    const some = [
      { parameterName: 'p1', parameterValue: 'first', timestamp: 5 },
      { parameterName: 'p1', parameterValue: 'last', timestamp: 4 },
      { parameterName: 'p1', parameterValue: 'elsewhere', context: 'train' },
      { parameterName: 'Name', parameterValue: 'no name' },
      { parameterName: 7 },
    ]
    expectRefusal(await logBatch(key, some), 400, codes.pointsWrong, /^values\[4\]\..*1 wrong in this batch/)

    const values = await readValues('parameters', key)
    expect(values).toHaveLength(502)
    const found = new Map(values.map((it) => [it.name, it]))
    expect(found.get('p1')).toMatchObject({ valueCurrent: 'last', timestampCurrent: 4, stepCurrent: null })
    expect(found.get('train_p1')).toMatchObject({ valueCurrent: 'elsewhere', runContextCurrent: 'train' })
    expect(found.get('p499')).toMatchObject({ valueCurrent: '499', stepCurrent: 499 })
    expect((await readValues('log-other', key)).map((it) => it.valueCurrent)).not.toContain('no name')
  })

  it('batches of the same names at once all succeed, in whatever order they have them', async () => {
    const key = await service.client.createExperiment()
    const values = Array.from({ length: 300 }, (_, at) => ({ parameterName: `p${at}`, parameterValue: 1 }))
    const batches = Array.from({ length: 12 }, (_, at) => (at % 2 ? values : values.toReversed()))
    const answers = await Promise.all(batches.map((it) => logBatch(key, it)))
    expect(answers.map((it) => it.text)).toEqual(batches.map(() => saved))
    expect(await readValues('parameters', key)).toHaveLength(300)
  })
})

it('a run has 16 MiB of values: more are refused with how much is left, and nothing of a request is stored', async () => {
  const key = await service.client.createExperiment()
  const { projectId } = (await service.client.get(`/experiment/metadata?experimentKey=${key}`)).body
  const long = 'x'.repeat(1_000_000)
  const write = (path: string, fields: object) =>
    service.client.post(`/write/experiment/${path}`, { experimentKey: key, ...fields })
  const logOther = (name: string, value = long) => write('log-other', { key: name, value })
  for (let at = 0; at < 8; at++) {
    expect((await write('parameter', { parameterName: `p${at}`, parameterValue: long })).text).toBe(saved)
    expect((await logOther(`o${at}`)).text).toBe(saved)
  }

  const full =
    /^The experiment may have 16777216 bytes of parameters, others, tags, datasets and models together\. 7\d{5} are left, and this needs 1\d{6}: /
  expectRefusal(await logOther('more'), 400, codes.valuesFull, full)
  const batch = [
    { parameterName: 'small', parameterValue: 1 },
    { parameterName: 'more', parameterValue: long },
  ]
  const path = '/clientlib/batch/logger/experiment/parameter'
  const refused = await service.client.post(path, { experimentKey: key, values: batch })
  expectRefusal(refused, 400, codes.valuesFull, full)
  const ofMlflow = { run_id: key, tags: [{ key: 'more', value: long }], params: [{ key: 'small', value: '1' }] }
  const { status, body } = await service.client.post('/api/2.0/mlflow/runs/log-batch', ofMlflow)
  expect([status, body.error_code]).toEqual([400, 'INVALID_PARAMETER_VALUE'])
  expect(body.message).toMatch(full)
  expect((await readValues('parameters', key)).map((it) => it.name)).toEqual(
    [0, 1, 2, 3, 4, 5, 6, 7].map((it) => `p${it}`),
  )

  // A value that replaces another takes its room, and one that was deleted leaves it.
  expect((await logOther('o7', long.replaceAll('x', 'y'))).text).toBe(saved)
  await write('parameter/delete', { parameterName: 'p7' })
  expect((await logOther('more')).text).toBe(saved)
  const tags = Array.from({ length: 1_000 }, (_, at) => `${at} ${'t'.repeat(490)}`)
  expect((await write('tags', { addedTags: tags })).text).toBe(saved)
  expectRefusal(await write('tags', { addedTags: tags.map((it) => `u${it}`) }), 400, codes.valuesFull, /bytes/)
  expectRefusal(await logOther('short', 'x'.repeat(400_000)), 400, codes.valuesFull, /bytes/)
  const dataset = { name: 'digits', digest: 'd1', source_type: 'local', source: '/digits', schema: 'x'.repeat(400_000) }
  const inputs = { run_id: key, datasets: [{ dataset }] }
  const large = await service.client.post('/api/2.0/mlflow/runs/log-inputs', inputs)
  expect([large.status, large.body.message]).toEqual([400, expect.stringMatching(/bytes/)])
  const model = {
    experiment_id: projectId,
    name: 'net',
    source_run_id: key,
    params: [{ key: 'a', value: 'x'.repeat(400_000) }],
  }
  const ofModel = await service.client.post('/api/2.0/mlflow/logged-models', model)
  expect([ofModel.status, ofModel.body.message]).toEqual([400, expect.stringMatching(/bytes/)])
  expect((await logOther('short', 'x'.repeat(100_000))).text).toBe(saved)
  expect((await readValues('log-other', key)).find((it) => it.name === 'o7')?.valueCurrent).toMatch(/^y+$/)
})

it('a run of an earlier version that has more keeps it, and may have less', async () => {
  const key = await service.client.createExperiment()
  const database = openDatabase({ url: storesWith('postgres').postgresUrl, onError: () => undefined })
  await database.row(
    `INSERT INTO experiment_values (experiment_id, kind, name, value, timestamp_ms)
     SELECT id, 'other', 'o' || at, repeat('x', 1000000), 1 FROM experiments, generate_series(1, 20) AS at WHERE key = $1`,
    [key],
  )
  await database.close()
  const logOther = (name: string, value: string) =>
    service.client.post('/write/experiment/log-other', { experimentKey: key, key: name, value })
  expectRefusal(await logOther('new', 'x'), 400, codes.valuesFull, /0 are left, and this needs 104: /)
  expect((await logOther('o1', 'x'.repeat(999_999))).text).toBe(saved)
  expectRefusal(await logOther('o1', 'x'.repeat(1_000_000)), 400, codes.valuesFull, /0 are left/)
  expect(await readValues('log-other', key)).toHaveLength(21)
})

it('logging is activity: it moves the end of the experiment', async () => {
  const key = await service.client.createExperiment()
  const { body: atFirst } = await service.client.get(`/experiment/metadata?experimentKey=${key}`)

  await eventually(async () => {
    await service.client.post('/write/experiment/tags', { experimentKey: key, addedTags: ['any'] })
    const { body } = await service.client.get(`/experiment/metadata?experimentKey=${key}`)
    expect(body.endTimeMillis).toBeGreaterThan(atFirst.endTimeMillis as number)
  })
})
