import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aForm, createAssetClient } from '../kit/clients/assets.ts'
import { anEvent } from '../kit/clients/monitoring.ts'
import { createRegistryClient } from '../kit/clients/registry.ts'
import { eventually } from '../kit/eventually.ts'
import { uniqueName } from '../kit/service.ts'
import { readZip } from '../kit/zip.ts'
import { openTwoUsers, type TwoUsers } from './accounts/two-users.ts'

/** What clients that people already have send, and what they look for in the answers. */

let service: TwoUsers
let assets: ReturnType<typeof createAssetClient>
let registry: ReturnType<typeof createRegistryClient>
beforeAll(async () => {
  service = await openTwoUsers()
  assets = createAssetClient(service)
  registry = createRegistryClient(service)
})
afterAll(() => service?.close())

const get = (path: string, query: Record<string, string> = {}) =>
  service.client.get(`${path}?${new URLSearchParams(query)}`)

async function post(path: string, body: Record<string, unknown>) {
  const answer = await service.client.post(path, body)
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

type Value = { name: string; valueCurrent: string; runContextCurrent: string | null }

async function readValues(path: string, experimentKey: string, count: number) {
  return await eventually(async () => {
    const values = ((await get(path, { experimentKey })).body.values as Value[]).filter((it) => it.name !== 'Name')
    expect(values).toHaveLength(count)
    return values.map((it) => [it.name, it.valueCurrent, it.runContextCurrent])
  })
}

describe('parameters and others', () => {
  it.each([
    ['/write/experiment/parameter', '/experiment/parameters', 'parameterName', 'parameterValue'],
    ['/write/experiment/log-other', '/experiment/log-other', 'key', 'value'],
  ])('%s keeps one value for each context', async (write, read, name, value) => {
    const experimentKey = await service.client.createExperiment()
    await post(write, { experimentKey, [name]: 'lr', [value]: '0.1', context: 'train' })
    await post(write, { experimentKey, [name]: 'lr', [value]: '0.2', context: 'validate' })
    await post(write, { experimentKey, [name]: 'lr', [value]: '0.3', context: '' })
    await post(write, { experimentKey, [name]: 'lr', [value]: '0.4', context: 'train' })

    expect(await readValues(read, experimentKey, 3)).toEqual([
      ['lr', '0.3', null],
      ['train_lr', '0.4', 'train'],
      ['validate_lr', '0.2', 'validate'],
    ])
  })

  it('keeps lists, objects, null and bare NaN as their JSON text', async () => {
    const experimentKey = await service.client.createExperiment()
    const write = (name: string, json: string) =>
      service.client.postRaw(
        '/write/experiment/parameter',
        `{"experimentKey":"${experimentKey}","parameterName":"${name}","parameterValue":${json}}`,
      )
    for (const [name, json] of [
      ['list', '[1,"a",{"b":null}]'],
      ['nan', 'NaN'],
      ['nothing', 'null'],
      ['object', '{"a":9007199254740993}'],
    ] as const) {
      expect((await write(name, json)).status, name).toBe(200)
    }

    expect(await readValues('/experiment/parameters', experimentKey, 4)).toEqual([
      ['list', '[1,"a",{"b":null}]', null],
      ['nan', 'NaN', null],
      ['nothing', 'null', null],
      ['object', '{"a":9007199254740993}', null],
    ])
  })
})

describe('metadata of an asset', () => {
  const metadata = JSON.stringify({ k: 1, l: [2] })

  it.each([
    [
      'names of the fields in the query',
      [
        ['metadata', 'k'],
        ['metadata', 'l'],
      ],
    ],
    ['one name in the query', [['metadata', 'k']]],
    ['another JSON in the query', [['metadata', '{"other":1}']]],
  ])('%s: the form part wins', async (_what, more) => {
    const experimentKey = await service.client.createExperiment()
    const query = new URLSearchParams([
      ['experimentKey', experimentKey],
      ['fileName', 'a.txt'],
      ...(more as [string, string][]),
    ])

    const answer = await assets.send(`/write/experiment/upload-asset?${query}`, aForm(Buffer.from('a'), { metadata }))

    expect(answer.status, answer.text).toBe(200)
    expect(await assets.list(experimentKey)).toMatchObject([{ metadata }])
  })

  it('a query without JSON is ignored, one with JSON counts', async () => {
    const experimentKey = await service.client.createExperiment()
    for (const [fileName, given] of [
      ['a', 'k'],
      ['b', '{"k":1}'],
    ] as const) {
      const answer = await assets.upload({ experimentKey, fileName, metadata: given }, aForm(Buffer.from('a')))
      expect(answer.status, answer.text).toBe(200)
    }
    const listed = await assets.list(experimentKey)
    expect(Object.fromEntries(listed.map((it) => [it.fileName, it.metadata]))).toEqual({ a: null, b: '{"k":1}' })
  })
})

describe('lists of experiments', () => {
  async function aProject(count: number) {
    const projectName = uniqueName('paged')
    const keys: string[] = []
    for (let at = 0; at < count; at++) {
      const experimentKey = await service.client.createExperiment({ projectName })
      // The newest comes first by start, and third by end.
      await post('/write/experiment/set-start-end-time', {
        experimentKey,
        startTimeMillis: 1_000 + at,
        endTimeMillis: 100_000 - at,
      })
      keys.push(experimentKey)
    }
    return { workspaceName: service.workspaceName, projectName, keys }
  }

  it.each(['size', 'page_size', 'pageSize'])('page counts from 1, and %s is its size', async (size) => {
    const { keys, ...project } = await aProject(5)
    const read = async (page: string) => {
      const { body } = await get('/experiments', { ...project, page, [size]: '2' })
      return (body.experiments as { experimentKey: string }[]).map((it) => it.experimentKey)
    }

    expect(await read('1')).toEqual(keys.slice(0, 2))
    expect(await read('2')).toEqual(keys.slice(2, 4))
    expect(await read('3')).toEqual(keys.slice(4))
    expect(await read('4')).toEqual([])
  })

  it('sortBy and sortOrder are followed over pages, by project/query too', async () => {
    const { keys, ...project } = await aProject(3)
    const sorted = async (query: Record<string, string>) => {
      const pages: string[] = []
      for (let page: string | null = '1'; page; ) {
        const { body } = await get('/experiments', { ...project, ...query, page, size: '2' })
        pages.push(...(body.experiments as { experimentKey: string }[]).map((it) => it.experimentKey))
        page = body.nextPage as string | null
      }
      return pages
    }
    const newestFirst = keys.toReversed()

    expect(await sorted({ sortBy: 'startTime', sortOrder: 'desc' })).toEqual(newestFirst)
    expect(await sorted({ sortBy: 'startTime', sortOrder: 'asc' })).toEqual(keys)
    expect(await sorted({ sortBy: 'endTime' })).toEqual(newestFirst)
    const query = { ...project, predicates: [], sortBy: 'startTime', sortOrder: 'desc', size: 2 }
    expect((await post('/project/query', query)).experimentKeys).toEqual(newestFirst.slice(0, 2))
    expect((await post('/project/query', { ...query, page: 2 })).experimentKeys).toEqual(newestFirst.slice(2))
  })

  it('nextPage stays right while experiments are added', async () => {
    const { keys, ...project } = await aProject(2)
    const first = await get('/experiments', { ...project, size: '1' })
    const added = await service.client.createExperiment({ projectName: project.projectName })
    const second = await get('/experiments', { ...project, size: '2', page: first.body.nextPage as string })

    expect((second.body.experiments as { experimentKey: string }[]).map((it) => it.experimentKey)).toEqual([
      keys[1],
      added,
    ])
  })
})

describe('project/query', () => {
  it('answers keys, and knows the columns that clients ask for', async () => {
    const projectName = uniqueName('queried')
    const experimentKey = await service.client.createExperiment({ projectName })
    await service.client.createExperiment({ projectName })
    await post('/write/experiment/set-start-end-time', {
      experimentKey,
      startTimeMillis: 1_000_000,
      endTimeMillis: 1_005_000,
    })
    await post('/write/experiment/system-details', {
      experimentKey,
      osRelease: '6.1.0-test',
      machine: 'x86_64',
      processor: 'a processor',
    })
    await post('/write/experiment/file-path', { experimentKey, filePath: '/home/someone/train.py' })
    const find = async (column: string, operator: string, value: string) => {
      const predicates = [{ column: `${column}--metadata`, operator, value }]
      const body = await post('/project/query', { workspaceName: service.workspaceName, projectName, predicates })
      expect((body.experiments as { experimentKey: string }[]).map((it) => it.experimentKey)).toEqual(
        body.experimentKeys,
      )
      return body.experimentKeys
    }

    for (const [column, operator, value] of [
      ['duration', '=', '5'],
      ['durationMillis', '=', '5000'],
      ['start_server_timestamp', '=', '1000000'],
      ['end_server_timestamp', '=', '1005000'],
      ['file_path', '=', '/home/someone/train.py'],
      ['file_name', '=', 'train.py'],
      ['os_release', '=', '6.1.0-test'],
      ['machine', '=', 'x86_64'],
      ['processor', '=', 'a processor'],
    ] as const) {
      expect(await find(column, operator, value), column).toEqual([experimentKey])
    }
    expect(await find('user_name', '=', service.userName)).toHaveLength(2)
  })
})

it('a file of an artifact is read by its version alone', async () => {
  const experimentKey = await service.client.createExperiment()
  const opened = await post('/write/artifacts/upsert', {
    experimentKey,
    artifactName: uniqueName('a'),
    artifactType: 'x',
  })
  const artifactVersionId = opened.artifactVersionId as string
  const { body } = await assets.upload(
    { experimentKey, artifactVersionId, fileName: 'data' },
    aForm(Buffer.from('data')),
  )
  await post('/write/artifacts/state', { experimentKey, artifactVersionId, state: 'CLOSED' })
  const query = new URLSearchParams({ assetId: body.assetId as string, artifactVersionId })

  const read = await assets.readPath(`/experiment/asset/get-asset?${query}`)
  expect([read.status, String(read.bytes)]).toEqual([200, 'data'])
  const foreign = await service.stranger.get(`/experiment/asset/get-asset?${query}`)
  expect(foreign.status).toBe(400)
})

describe('names of registered models', () => {
  it('are found ignoring case, and keep their first spelling', async () => {
    const name = `${uniqueName('Model')}-Übung`
    const other = name.toUpperCase()
    const { registryModelName } = await registry.aModel({ registryModelName: name })
    const again = await service.client.post('/write/registry-model', {
      ...(await registry.aSource()),
      registryModelName: other,
    })
    expect(again.status, again.text).toBe(400)
    const { experimentModelId } = await registry.aSource()
    await post('/write/registry-model/item', { experimentModelId, registryModelName: other })

    expect(registryModelName).toBe(name)
    expect(await registry.listVersions(name.toLowerCase())).toEqual(['1.0.0', '1.0.1'])
    const details = await registry.read('/registry-model/details', other)
    expect(details.body).toMatchObject({ modelName: name })
    expect((await registry.download(other)).status).toBe(200)
    const history = await get('/registry-model/history', {
      workspaceName: service.workspaceName,
      modelName: name.toLowerCase(),
    })
    expect((history.body.events as unknown[]).length, history.text).toBeGreaterThan(0)
  })

  it('may be changed to another spelling of the same name', async () => {
    const { registryModelName, registryModelId } = await registry.aModel()
    const renamed = registryModelName.toUpperCase()
    await registry.post('/write/registry-model/update', { registryModelId, registryModelName: renamed })
    const { body } = await registry.read('/registry-model/details', registryModelName)
    expect(body.modelName).toBe(renamed)
  })
})

it('doubles are written as Java writes them', async () => {
  const experimentKey = await service.client.createExperiment()
  const values: [sent: number, read: string][] = [
    [0, '0.0'],
    [-0, '-0.0'],
    [123, '123.0'],
    [-1.5, '-1.5'],
    [0.001, '0.001'],
    [0.00099, '9.9E-4'],
    [9_999_999.5, '9999999.5'],
    [1e7, '1.0E7'],
    [12_345_678, '1.2345678E7'],
    [34_359_738_368, '3.4359738368E10'],
    [-1e21, '-1.0E21'],
    [1.5e300, '1.5E300'],
    [1e-7, '1.0E-7'],
    [-2.5e-8, '-2.5E-8'],
    [0.1 + 0.2, '0.30000000000000004'],
    [Number.MAX_VALUE, '1.7976931348623157E308'],
    [Number.MIN_VALUE, '4.9E-324'],
    ...randomDoubles(500).map((it): [number, string] => [it, toJavaText(it)]),
  ]
  await post('/write/experiment/metrics/batch', {
    experimentKey,
    metrics: values.map(([value], step) => ({
      metricName: 'x',
      metricValue: Object.is(value, -0) ? '-0' : value,
      step,
    })),
  })

  const points = await service.client.readPoints(experimentKey, 'x', values.length)
  expect(points.map((it) => it.metricValue)).toEqual(values.map(([, text]) => text))
  // The summary follows its points by a moment.
  await eventually(async () => {
    const { body } = await get('/experiment/metrics/summary', { experimentKey })
    expect(body.values).toMatchObject([{ name: 'x', valueMax: '1.7976931348623157E308' }])
  })
})

/** Doubles of every magnitude. */
function randomDoubles(count: number): number[] {
  const bits = new DataView(new ArrayBuffer(8))
  let state = 1n
  const next = () => {
    state = BigInt.asUintN(64, state * 6_364_136_223_846_793_005n + 1_442_695_040_888_963_407n)
    return state
  }
  const made: number[] = []
  while (made.length < count) {
    bits.setBigUint64(0, next() ^ (next() >> 32n))
    const any = bits.getFloat64(0)
    const near = Number(next() >> 33n) / 2 ** 20
    const value = made.length % 2 === 0 ? any : near
    // Below, Java may write a second digit.
    if (Number.isFinite(value) && Math.abs(value) > 1e-300) made.push(value)
  }
  return made
}

function toJavaText(value: number): string {
  const size = Math.abs(value)
  if (value === 0 || (size >= 1e-3 && size < 1e7)) return Number.isInteger(value) ? `${value}.0` : String(value)
  const [mantissa = '', exponent] = value.toExponential().split('e')
  return `${mantissa.includes('.') ? mantissa : `${mantissa}.0`}E${Number(exponent)}`
}

it('a zip comes in few large chunks, its directory in one', async () => {
  const files = Object.fromEntries(
    Array.from({ length: 60 }, (_, at) => [`file-${at}.txt`, Buffer.from(`content ${at}`)] as const),
  )
  const { registryModelName: modelName } = await registry.aModel({}, await registry.aSource(files))
  const query = new URLSearchParams({ workspaceName: service.workspaceName, modelName })
  const chunks = await readChunks(`/registry-model/item/download?${query}`)

  const zip = Buffer.concat(chunks)
  expect(
    readZip(zip)
      .map((it) => it.name)
      .sort(),
  ).toEqual(Object.keys(files).sort())
  expect(chunks.length).toBeLessThanOrEqual(2)
  const directory = zip.indexOf('PK\x01\x02', 0, 'latin1')
  const lastChunkAt = zip.length - (chunks.at(-1)?.length ?? 0)
  expect(lastChunkAt).toBeLessThanOrEqual(directory)
})

/** The chunks of an answer as HTTP/1.1 frames them. */
async function readChunks(path: string): Promise<Buffer[]> {
  const { hostname, port } = new URL(service.url)
  const socket = connect(Number(port), hostname)
  socket.write(
    `GET /api/rest/v2${path} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: ${service.apiKey}\r\nConnection: close\r\n\r\n`,
  )
  const received: Buffer[] = []
  for await (const part of socket) received.push(part)
  const all = Buffer.concat(received)
  const chunks: Buffer[] = []
  for (let at = all.indexOf('\r\n\r\n') + 4; ; ) {
    const lineEnd = all.indexOf('\r\n', at)
    const size = Number.parseInt(all.toString('latin1', at, lineEnd), 16)
    if (Number.isNaN(size)) throw new Error(`not in chunks: ${all.toString('latin1', 0, 300)}`)
    if (size === 0) return chunks
    chunks.push(all.subarray(lineEnd + 2, lineEnd + 2 + size))
    at = lineEnd + 2 + size + 2
  }
}

describe('output', () => {
  const write = (experimentKey: string, output: string, offset: number, localTimestamp: number, stderr = false) =>
    post('/write/experiment/output', { experimentKey, outputLines: [{ output, offset, localTimestamp, stderr }] })

  async function readOutput(experimentKey: string, length: number): Promise<string> {
    return await eventually(async () => {
      const { body } = await get('/experiment/output', { experimentKey })
      expect((body.output as string).length).toBeGreaterThanOrEqual(length)
      return body.output as string
    })
  }

  it('comes back by time, then by offset', async () => {
    const experimentKey = await service.client.createExperiment()
    await write(experimentKey, 'third\n', 0, 3_000)
    await write(experimentKey, 'second\n', 1, 1_000)
    await write(experimentKey, 'first\n', 0, 1_000)
    expect(await readOutput(experimentKey, 18)).toBe('first\nsecond\nthird\n')
  })

  it('a newline is added only where a writer sends none of its own', async () => {
    const live = await service.client.createExperiment()
    for (const [at, piece] of ['epoch', ' ', '1', '\n', 'epoch 2\n'].entries()) await write(live, piece, at, 1_000 + at)
    const lines = await service.client.createExperiment()
    for (const [at, line] of ['one', 'two'].entries()) await write(lines, line, at, 1_000 + at)

    expect(await readOutput(live, 16)).toBe('epoch 1\nepoch 2\n')
    expect((await readOutput(lines, 7)).trimEnd()).toBe('one\ntwo')
  })
})

describe('bare NaN and Infinity', () => {
  const numbers = '[NaN, Infinity, -Infinity, 1.5]'
  const texts = ['NaN', 'Infinity', '-Infinity', '1.5']

  it('are values of metrics: one, rows and columns', async () => {
    const experimentKey = await service.client.createExperiment()
    const key = `"experimentKey": "${experimentKey}"`
    const all = JSON.parse(numbers.replaceAll(/-?(NaN|Infinity)/g, '"$&"')) as (string | number)[]
    const bare = all.map(String)
    const bodies = [
      ['metric', `{${key}, "metricName": "one", "metricValue": NaN, "step": 0}`],
      [
        'metrics/batch',
        `{${key}, "metrics": [${bare.map((it, step) => `{"metricName": "rows", "metricValue": ${it}, "step": ${step}}`)}]}`,
      ],
      [
        'metrics/batch',
        `{${key}, "series": [{"metricName": "columns", "steps": [0, 1, 2, 3], "timestamps": [1, 2, 3, 4], "values": ${numbers}}]}`,
      ],
    ] as const
    for (const [path, body] of bodies) {
      const answer = await service.client.postRaw(`/write/experiment/${path}`, body)
      expect(answer.status, answer.text).toBe(200)
    }

    const read = async (name: string, count: number) =>
      (await service.client.readPoints(experimentKey, name, count)).map((it) => it.metricValue)
    expect(await read('one', 1)).toEqual(['NaN'])
    expect(await read('rows', 4)).toEqual(texts)
    expect(await read('columns', 4)).toEqual(texts)
  })

  it('are values of features; elsewhere they are refused with the name of the field', async () => {
    const modelName = uniqueName('model')
    const given = anEvent({
      workspaceName: service.workspaceName,
      modelName,
      features: { a: 'HERE', b: 'text "NaN" \\' },
    })
    const event = JSON.stringify(given).replace('"HERE"', 'NaN')
    const answer = await service.client.postRaw('/mpm/v2/events/batch', `{"data": [${event}]}`)
    expect([answer.status, answer.body.accepted], answer.text).toEqual([200, 1])

    const experimentKey = await service.client.createExperiment()
    const refused = await service.client.postRaw(
      '/write/experiment/metric',
      `{"experimentKey": "${experimentKey}", "metricName": "x", "metricValue": 1, "step": NaN}`,
    )
    expect([refused.status, refused.body.msg]).toEqual([400, expect.stringContaining('step')])
  })
})

describe('names encoded twice', () => {
  const twice = (name: string) => encodeURIComponent(name)

  it('are found when nothing has the name as sent', async () => {
    const experimentKey = await service.client.createExperiment()
    const artifactName = `${uniqueName('an artifact')} / 100%`
    await post('/write/artifacts/upsert', { experimentKey, artifactName, artifactType: 'x' })
    await post('/write/experiment/metric', { experimentKey, metricName: 'my metric', metricValue: 1, step: 1 })
    await service.client.readPoints(experimentKey, 'my metric', 1)

    const workspace = service.workspaceName
    const found = await get('/artifacts/get', { workspace, artifactName: twice(artifactName) })
    expect(found.body, found.text).toMatchObject({ artifactName, name: artifactName, type: 'x', sizeInBytes: 0 })
    expect((found.body.versions as object[])[0]).toMatchObject({ version: '1.0.0', artifactVersion: '1.0.0' })
    expect(await service.client.readMetric(experimentKey, twice('my metric'))).toHaveLength(1)
    const missing = await get('/artifacts/get', { workspace, artifactName: twice('not there') })
    expect(missing.status).toBe(400)
  })

  it('a name that looks encoded is itself first', async () => {
    const experimentKey = await service.client.createExperiment()
    const write = (metricName: string, metricValue: number) =>
      post('/write/experiment/metric', { experimentKey, metricName, metricValue, step: 1 })
    await write('a b', 1)
    await write('a%20b', 2)
    await service.client.readPoints(experimentKey, 'a b', 1)
    await eventually(async () => {
      const [point] = await service.client.readMetric(experimentKey, 'a%20b')
      expect(point?.metricValue).toBe('2.0')
    })
  })
})

describe('what is not there', () => {
  it('an unknown project is 404 by name and 400 by id; no git patch is an empty answer', async () => {
    const experimentKey = await service.client.createExperiment()
    const byName = await get('/project', { workspaceName: service.workspaceName, projectName: uniqueName('no') })
    expect(byName.status, byName.text).toBe(404)
    const patch = await get('/experiment/git/patch', { experimentKey })
    expect([patch.status, patch.body.code]).toEqual([200, 200])
  })

  it('a project may be made and changed without a description', async () => {
    const projectName = uniqueName('project')
    const fields = { workspaceName: service.workspaceName, projectName, projectDescription: null, isPublic: false }
    await post('/write/project/create', fields)
    const { body } = await get('/project', { workspaceName: service.workspaceName, projectName })
    expect(body).toMatchObject({ projectName })
  })

  it('git metadata may have some of its fields', async () => {
    const experimentKey = await service.client.createExperiment()
    await post('/write/experiment/git/metadata', { experimentKey, branch: 'main' })
    await post('/write/experiment/git/metadata', { experimentKey, user: 'someone' })
    const { body } = await get('/experiment/git/metadata', { experimentKey })
    expect(body).toMatchObject({ branch: 'main', user: 'someone', origin: null })
  })
})

it('assets without an extension have the type they were sent with; curves are JSON', async () => {
  const experimentKey = await service.client.createExperiment()
  const upload = async (fields: Record<string, string>, contentType?: string) => {
    const sent = contentType
      ? { body: Buffer.from('[]'), headers: { 'content-type': contentType } }
      : aForm(Buffer.from('[]'))
    const { body } = await assets.upload({ experimentKey, ...fields }, sent)
    const query = new URLSearchParams({ experimentKey, assetId: body.assetId as string })
    return (await assets.readPath(`/experiment/asset/get-asset?${query}`)).headers.get('content-type')
  }

  expect(await upload({ fileName: 'roc', type: 'curve' })).toBe('application/json')
  expect(await upload({ fileName: 'data' }, 'application/x-parquet')).toBe('application/x-parquet')
  expect(await upload({ fileName: 'data2' })).toBe('application/octet-stream')
})

it('counters of models are right once the events can be read', async () => {
  const modelName = uniqueName('counted')
  const { workspaceName } = service
  const data = Array.from({ length: 20 }, (_, at) => anEvent({ workspaceName, modelName, predictionId: `p-${at}` }))
  await post('/mpm/v2/events/batch', { data })

  const model = await eventually(async () => {
    const { body } = await get('/mpm/v2/models', { workspaceName, modelName })
    const [found] = body.models as { versions: { events: number }[]; counters: object }[]
    expect(found?.versions[0]?.events).toBe(20)
    return found
  })
  expect(model?.counters).toMatchObject({ accepted: 20 })
})

describe('calls of newer clients', () => {
  it('delete parameters and tags', async () => {
    const experimentKey = await service.client.createExperiment()
    for (const name of ['a', 'b', 'c', 'd']) {
      await post('/write/experiment/parameter', { experimentKey, parameterName: name, parameterValue: '1' })
    }
    await post('/write/experiment/tags', { experimentKey, addedTags: ['x', 'y', 'z'] })
    await post('/write/experiment/parameter/delete', { experimentKey, parameterName: 'a' })
    const both = ['b', 'c', 'absent'].map((parameterName) => ({ experimentKey, parameterName }))
    const answer = await service.client.post('/write/experiments/parameters/delete', both)
    await post('/write/experiment/tags/delete', { experimentKey, tags: ['x', 'z', 'absent'] })

    expect(answer.status, answer.text).toBe(200)
    expect(await readValues('/experiment/parameters', experimentKey, 1)).toEqual([['d', '1', null]])
    expect((await get('/experiment/tags', { experimentKey })).body.tags).toEqual(['y'])
    const strange = await service.stranger.post('/write/experiments/parameters/delete', both)
    expect(strange.status).toBe(400)
  })

  it('find assets by name', async () => {
    const experimentKey = await service.client.createExperiment()
    await assets.upload({ experimentKey, fileName: 'a', type: 'image' }, aForm(Buffer.from('1')))
    await assets.upload({ experimentKey, fileName: 'a', type: 'audio' }, aForm(Buffer.from('2')))
    await assets.upload({ experimentKey, fileName: 'b' }, aForm(Buffer.from('3')))
    const find = async (query: Record<string, string>) => {
      const { body } = await get('/experiment/asset/get-by-name', { experimentKey, ...query })
      return (body.assets as { fileName: string; type: string }[]).map((it) => it.type)
    }

    expect(await find({ assetName: 'a' })).toEqual(['image', 'audio'])
    expect(await find({ assetName: 'a', type: 'audio' })).toEqual(['audio'])
    expect(await find({ assetName: 'c' })).toEqual([])
  })

  it('read every metric at once', async () => {
    const experimentKey = await service.client.createExperiment()
    for (const [metricName, context, metricValue] of [
      ['b', undefined, 1],
      ['a', 'train', 2],
      ['a', undefined, 3],
    ] as const) {
      await post('/write/experiment/metric', { experimentKey, metricName, context, metricValue, step: 1 })
    }
    const points = await eventually(async () => {
      const { body } = await get('/experiment/metrics/get-all', { experimentKey })
      expect(body.metrics).toHaveLength(3)
      return body.metrics as Record<string, unknown>[]
    })
    expect(points.map((it) => [it.metricName, it.runContext, it.metricValue])).toEqual([
      ['a', null, '3.0'],
      ['a', 'train', '2.0'],
      ['b', null, '1.0'],
    ])
  })

  it('search experiments by a tree of rules', async () => {
    const projectName = uniqueName('searched')
    const keys: string[] = []
    for (const value of ['1', '2', '3']) {
      const experimentKey = await service.client.createExperiment({ projectName })
      await post('/write/experiment/parameter', { experimentKey, parameterName: 'p', parameterValue: value })
      keys.push(experimentKey)
    }
    const { body } = await get('/project', { workspaceName: service.workspaceName, projectName })
    const rule = (operator: string, value: number) => ({
      id: 'p',
      field: 'p',
      type: 'double',
      operator,
      value,
      source: 'params',
    })
    const search = async (more: object) => {
      const rulesTree = { condition: 'OR', rules: [rule('equal', 1), rule('equal', 3)], valid: true }
      const fields = { projectId: body.projectId, viewId: null, rulesTree, limit: 100, page: 1, deleted: false }
      return (await post('/experiments/search', { ...fields, ...more })).experimentKeys
    }

    expect(await search({})).toEqual([keys[0], keys[2]])
    expect(await search({ limit: 1, page: 2 })).toEqual([keys[2]])
    expect(await search({ rulesTree: null })).toEqual(keys)
    expect(await search({ deleted: true })).toEqual([])
  })

  it('list the artifacts that an experiment made and used', async () => {
    const [maker, user] = [await service.client.createExperiment(), await service.client.createExperiment()]
    const artifactName = uniqueName('artifact')
    const opened = await post('/write/artifacts/upsert', { experimentKey: maker, artifactName, artifactType: 'x' })
    const artifactVersionId = opened.artifactVersionId as string
    await post('/write/artifacts/state', { experimentKey: maker, artifactVersionId, state: 'CLOSED' })
    await get('/artifacts/version', { versionId: artifactVersionId, consumerExperimentKey: user })
    const linked = async (experimentKey: string, filter: string) => {
      const { body } = await get('/get/artifacts', { experimentKey, filter })
      return (body.artifacts as Record<string, string>[]).map((it) => [it.artifactName, it.version, it.direction])
    }

    expect(await linked(maker, 'all')).toEqual([[artifactName, '1.0.0', 'output']])
    expect(await linked(user, 'all')).toEqual([[artifactName, '1.0.0', 'input']])
    expect(await linked(user, 'output')).toEqual([])
  })

  it('give a project to another member', async () => {
    const projectName = uniqueName('given')
    const { projectId } = await post('/write/project/create', {
      workspaceName: service.workspaceName,
      projectName,
      isPublic: false,
    })
    const give = (userName: string) => service.client.post('/write/project/update-owner', { projectId, userName })

    expect((await give(service.userName)).status).toBe(200)
    const nobody = await give('nobody')
    expect([nobody.status, nobody.body.msg]).toEqual([400, expect.stringContaining('userName')])
  })
})
