import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseExactJson } from '../../http/body/exact-json.ts'
import { openTwoUsers, type TwoUsers } from './accounts/two-users.ts'
import { codes, expectRefusal } from './http-error.ts'

/**
 * What every write promises of every field: present, of its kind and storable, or else refused by name with nothing kept;
 * `null` means absent; integers come as strings too; unknown fields do no harm.
 */
type Kind = 'text' | 'id' | 'int64' | 'flag' | 'float' | 'any' | 'list' | 'object' | 'percent' | 'bytes' | 'safe'
type Field = [path: string, kind: Kind, presence: 'required' | 'optional']
type Write = { path: string; method?: 'PUT'; body: Record<string, unknown>; fields: Field[] }

const experiment: Field = ['experimentKey', 'id', 'required']
const place: Field[] = [
  ['context', 'text', 'optional'],
  ['runContext', 'text', 'optional'],
  ['step', 'int64', 'optional'],
  ['epoch', 'int64', 'optional'],
  ['timestamp', 'int64', 'optional'],
]
const aGpu = { gpuId: 0, freeMemory: 1, usedMemory: 1, totalMemory: 2, gpuUtilization: 50 }

const writes: Write[] = [
  {
    path: '/write/workspace/new',
    body: { name: 'name', plan: 'plan' },
    fields: [
      ['name', 'text', 'required'],
      ['plan', 'text', 'optional'],
    ],
  },
  {
    path: '/write/project/create',
    body: { workspaceName: 'workspace', projectName: 'name', projectDescription: '', isPublic: true },
    fields: [
      ['workspaceName', 'text', 'required'],
      ['projectName', 'id', 'required'],
      ['projectDescription', 'text', 'optional'],
      ['isPublic', 'flag', 'required'],
    ],
  },
  {
    path: '/write/viz-instance/store/save',
    body: { instanceId: 'instance', projectId: 'absent', store: { a: 1 } },
    fields: [
      ['instanceId', 'text', 'required'],
      ['projectId', 'text', 'required'],
      ['store', 'object', 'required'],
    ],
  },
  {
    path: '/experiments/multi-metric-chart',
    body: { targetedExperiments: ['absent'], metrics: ['a'], params: ['a'], independentMetrics: true, fetchFull: true },
    fields: [
      ['targetedExperiments', 'list', 'required'],
      ['targetedExperiments[0]', 'id', 'required'],
      ['metrics', 'list', 'optional'],
      ['metrics[0]', 'text', 'required'],
      ['params', 'list', 'optional'],
      ['params[0]', 'text', 'required'],
      ['independentMetrics', 'flag', 'optional'],
      ['fetchFull', 'flag', 'optional'],
    ],
  },
  {
    path: '/write/experiment/create',
    body: { workspaceName: 'workspace', projectName: 'project', experimentName: 'name', experimentKey: 'x'.repeat(32) },
    fields: [
      ['workspaceName', 'text', 'required'],
      ['projectName', 'id', 'required'],
      ['experimentName', 'text', 'optional'],
      ['experimentKey', 'text', 'optional'],
    ],
  },
  {
    path: '/write/experiment/set-start-end-time',
    body: { startTimeMillis: 1, endTimeMillis: 2 },
    fields: [experiment, ['startTimeMillis', 'int64', 'optional'], ['endTimeMillis', 'int64', 'optional']],
  },
  {
    path: '/write/experiment/parameter',
    body: { parameterName: 'name', parameterValue: 1, step: 1, timestamp: 1 },
    fields: [
      experiment,
      ['parameterName', 'text', 'required'],
      ['parameterValue', 'any', 'required'],
      ['step', 'int64', 'optional'],
      ['timestamp', 'int64', 'optional'],
    ],
  },
  {
    path: '/write/experiment/log-other',
    body: { key: 'name', value: 1, timestamp: 1 },
    fields: [experiment, ['key', 'text', 'required'], ['value', 'any', 'required'], ['timestamp', 'int64', 'optional']],
  },
  {
    path: '/write/experiment/tags',
    body: { addedTags: ['tag'] },
    fields: [experiment, ['addedTags', 'list', 'optional'], ['addedTags[0]', 'text', 'required']],
  },
  {
    path: '/write/experiment/html',
    body: { html: '<b>bold</b>', override: true, timestamp: 1 },
    fields: [
      experiment,
      ['html', 'text', 'required'],
      ['override', 'flag', 'optional'],
      ['timestamp', 'int64', 'optional'],
    ],
  },
  {
    path: '/write/experiment/code',
    body: { code: 'print(1)' },
    fields: [experiment, ['code', 'text', 'required']],
  },
  {
    path: '/write/experiment/graph',
    body: { graph: '{}' },
    fields: [experiment, ['graph', 'text', 'required']],
  },
  {
    path: '/write/experiment/git/metadata',
    body: { user: 'user', root: 'root', branch: 'branch', parent: 'parent', origin: 'origin' },
    fields: [
      experiment,
      ['user', 'text', 'optional'],
      ['root', 'text', 'optional'],
      ['branch', 'text', 'optional'],
      ['parent', 'text', 'optional'],
      ['origin', 'text', 'optional'],
    ],
  },
  {
    path: '/write/experiment/system-details',
    body: {
      user: 'user',
      pid: 1,
      gpuStaticInfoList: [{ gpuIndex: 0, name: 'name', uuid: 'uuid', totalMemory: 1, powerLimit: 1 }],
      logAdditionalSystemInfoList: [{ key: 'key', value: 'value' }],
      networkInterfaceIps: ['::1'],
      command: ['python'],
    },
    fields: [
      experiment,
      ['user', 'text', 'optional'],
      ['pid', 'safe', 'optional'],
      ['gpuStaticInfoList', 'list', 'optional'],
      ['gpuStaticInfoList[0].gpuIndex', 'safe', 'required'],
      ['gpuStaticInfoList[0].name', 'text', 'required'],
      ['gpuStaticInfoList[0].uuid', 'text', 'required'],
      ['gpuStaticInfoList[0].totalMemory', 'safe', 'required'],
      ['gpuStaticInfoList[0].powerLimit', 'safe', 'required'],
      ['logAdditionalSystemInfoList[0].key', 'text', 'required'],
      ['logAdditionalSystemInfoList[0].value', 'any', 'required'],
      ['networkInterfaceIps[0]', 'text', 'required'],
      ['command', 'list', 'optional'],
    ],
  },
  {
    path: '/write/experiment/cloud-details',
    body: { provider: 'provider', metadata: { zone: 'zone' } },
    fields: [experiment, ['provider', 'text', 'required']],
  },
  {
    path: '/write/experiment/file-path',
    body: { filePath: '/a/b.py' },
    fields: [experiment, ['filePath', 'text', 'required']],
  },
  {
    path: '/write/experiment/update-status',
    body: { isAlive: true, error: 'error', hasCrashed: false },
    fields: [
      experiment,
      ['isAlive', 'flag', 'required'],
      ['error', 'text', 'optional'],
      ['hasCrashed', 'flag', 'optional'],
    ],
  },
  {
    path: '/write/experiment/rpc/send',
    body: { method: 'method', arguments: { a: 1 } },
    fields: [experiment, ['method', 'text', 'required']],
  },
  {
    path: '/write/experiment/upload-text-sample',
    body: { content: 'text', step: 1, context: 'a', metadata: '{}' },
    fields: [
      experiment,
      ['content', 'text', 'required'],
      ['step', 'int64', 'optional'],
      ['context', 'text', 'optional'],
      ['metadata', 'text', 'optional'],
    ],
  },
  {
    path: '/write/experiment/assets/remote/batch',
    body: { remoteAssets: [{ link: 's3://bucket/file', fileName: 'name', type: 'asset', metadata: '{}' }] },
    fields: [
      experiment,
      ['remoteAssets[0].link', 'text', 'required'],
      ['remoteAssets[0].fileName', 'text', 'optional'],
      ['remoteAssets[0].type', 'text', 'optional'],
      ['remoteAssets[0].metadata', 'text', 'optional'],
    ],
  },
  {
    path: '/write/registry-model',
    body: { experimentModelId: 'id', registryModelName: 'name', isPublic: true, version: '1.0.0', stages: ['stage'] },
    fields: [
      ['experimentModelId', 'text', 'required'],
      ['registryModelName', 'text', 'required'],
      ['description', 'text', 'optional'],
      ['isPublic', 'flag', 'optional'],
      ['version', 'text', 'optional'],
      ['comment', 'text', 'optional'],
      ['stages', 'list', 'optional'],
      ['stages[0]', 'text', 'required'],
    ],
  },
  {
    path: '/write/registry-model/item',
    body: { experimentModelId: 'id', registryModelName: 'name', version: '1.0.0', stages: ['stage'] },
    fields: [
      ['experimentModelId', 'text', 'required'],
      ['registryModelName', 'text', 'required'],
      ['version', 'text', 'optional'],
      ['comment', 'text', 'optional'],
      ['stages', 'list', 'optional'],
      ['stages[0]', 'text', 'required'],
    ],
  },
  {
    path: '/write/registry-model/item/update',
    body: { registryModelItemId: 'id', comment: 'comment', stages: ['stage'] },
    fields: [
      ['registryModelItemId', 'text', 'required'],
      ['comment', 'text', 'optional'],
      ['stages', 'list', 'optional'],
      ['stages[0]', 'text', 'required'],
    ],
  },
  {
    path: '/write/registry-model/update',
    body: { registryModelId: 'id', registryModelName: 'name', description: 'what for', isPublic: false },
    fields: [
      ['registryModelId', 'text', 'required'],
      ['registryModelName', 'text', 'optional'],
      ['description', 'text', 'optional'],
      ['isPublic', 'flag', 'optional'],
    ],
  },
  {
    path: '/write/registry-model/notes',
    body: { workspaceName: 'workspace', registryModelName: 'name', notes: 'notes' },
    fields: [
      ['workspaceName', 'text', 'required'],
      ['registryModelName', 'text', 'required'],
      ['notes', 'text', 'required'],
    ],
  },
  {
    path: '/write/experiment/metric',
    body: { metricName: 'name', metricValue: 1, context: 'a', runContext: 'b', step: 1, epoch: 1, timestamp: 1 },
    fields: [experiment, ['metricName', 'text', 'required'], ['metricValue', 'float', 'required'], ...place],
  },
  {
    path: '/write/experiment/metrics/batch',
    body: { metrics: [], series: [] },
    fields: [experiment, ['metrics', 'list', 'optional'], ['series', 'list', 'optional']],
  },
  {
    path: '/write/experiment/output',
    body: { context: 'a', runContext: 'b', outputLines: [{ output: 'x', stderr: true, localTimestamp: 1, offset: 1 }] },
    fields: [
      experiment,
      ['context', 'text', 'optional'],
      ['runContext', 'text', 'optional'],
      ['outputLines', 'list', 'required'],
      ['outputLines[0].output', 'text', 'required'],
      ['outputLines[0].stderr', 'flag', 'optional'],
      ['outputLines[0].localTimestamp', 'int64', 'optional'],
      ['outputLines[0].offset', 'int64', 'optional'],
    ],
  },
  {
    path: '/write/experiment/gpu-metrics',
    body: { gpus: [aGpu], step: 1 },
    fields: [
      experiment,
      ['gpus', 'list', 'required'],
      ['gpus[0].gpuId', 'bytes', 'required'],
      ['gpus[0].freeMemory', 'bytes', 'required'],
      ['gpus[0].usedMemory', 'bytes', 'required'],
      ['gpus[0].totalMemory', 'bytes', 'required'],
      ['gpus[0].gpuUtilization', 'percent', 'required'],
      ...place,
    ],
  },
  {
    path: '/write/experiment/ram-metrics',
    body: { totalRam: 2, usedRam: 1 },
    fields: [experiment, ['totalRam', 'bytes', 'required'], ['usedRam', 'bytes', 'required'], ...place],
  },
  {
    path: '/write/experiment/cpu-metrics',
    body: { cpuPercentUtilization: [1, 2] },
    fields: [
      experiment,
      ['cpuPercentUtilization', 'list', 'required'],
      ['cpuPercentUtilization[0]', 'percent', 'required'],
      ...place,
    ],
  },
  {
    path: '/write/experiment/load-metrics',
    body: { loadAverage: 0.5 },
    fields: [experiment, ['loadAverage', 'float', 'required'], ...place],
  },
]

const webhook: Pick<Write, 'body' | 'fields'> = {
  body: { workspaceName: 'workspace', modelName: 'name', url: 'https://hook.invalid/' },
  fields: [
    ['workspaceName', 'text', 'required'],
    ['modelName', 'text', 'optional'],
    ['url', 'text', 'required'],
  ],
}
const webhookUrl = { url: 'https://hook.invalid/', header: { a: 'b' }, triggers: ['MODEL_UPDATED'], name: 'name' }
const webhookConfig: Pick<Write, 'path' | 'body' | 'fields'> = {
  path: '/webhooks/config',
  body: { webhookConfigs: [{ workspaceName: 'none', modelName: 'name', webhookUrls: [webhookUrl] }] },
  fields: [
    ['webhookConfigs', 'list', 'required'],
    ['webhookConfigs[0].workspaceName', 'text', 'required'],
    ['webhookConfigs[0].modelName', 'text', 'optional'],
    ['webhookConfigs[0].webhookUrls', 'list', 'required'],
    ['webhookConfigs[0].webhookUrls[0].url', 'text', 'required'],
    ['webhookConfigs[0].webhookUrls[0].triggers', 'list', 'optional'],
    ['webhookConfigs[0].webhookUrls[0].triggers[0]', 'text', 'required'],
    ['webhookConfigs[0].webhookUrls[0].name', 'text', 'optional'],
    ['webhookConfigs[0].webhookUrls[0].gitHostUrl', 'flag', 'optional'],
  ],
}
const webhooks: Write[] = [
  webhookConfig,
  { ...webhookConfig, method: 'PUT' },
  { path: '/webhooks/signing-secret', ...webhook },
  { path: '/webhooks/test', ...webhook },
  { path: '/webhooks/enable', ...webhook },
  { path: '/webhooks/redeliver', body: { deliveryId: '1' }, fields: [['deliveryId', 'text', 'required']] },
]

/** For admins; the key of the service is one's. */
const administration: Write[] = [
  {
    path: '/write/service-account',
    body: { name: 'name', teamName: 'team', organizationName: 'organization', authorizedWorkspaces: ['workspace'] },
    fields: [
      ['name', 'text', 'required'],
      ['teamName', 'text', 'required'],
      ['organizationName', 'text', 'required'],
      ['authorizedWorkspaces', 'list', 'optional'],
      ['authorizedWorkspaces[0]', 'text', 'required'],
    ],
  },
  {
    path: '/write/service-account/name/delete-api-key',
    body: { apiKey: 'key' },
    fields: [['apiKey', 'text', 'required']],
  },
  {
    path: '/write/organization/organization/secrets',
    method: 'PUT',
    body: { secretName: 'name', secretValue: 'value' },
    fields: [
      ['secretName', 'text', 'required'],
      ['secretValue', 'text', 'required'],
    ],
  },
  {
    path: '/admin/users',
    body: { userName: 'name', isAdmin: true, workspaceName: 'workspace' },
    fields: [
      ['userName', 'text', 'required'],
      ['isAdmin', 'flag', 'optional'],
      ['workspaceName', 'text', 'optional'],
    ],
  },
  { path: '/admin/users/name', method: 'PUT', body: { isAdmin: true }, fields: [['isAdmin', 'flag', 'required']] },
  {
    path: '/admin/users/keys',
    body: { userName: 'name', name: 'a', workspaceName: 'workspace', projectName: 'project' },
    fields: [
      ['userName', 'text', 'required'],
      ['name', 'text', 'optional'],
      ['workspaceName', 'text', 'optional'],
    ],
  },
]

const notText = [5, true, {}, ['x']]
const unstorable = ['a\0b', '\ud800', 'x\udc00y', '\udfff\ud800']
const notInteger = ['', 'x', '1.0', '1e3', 1.5, true, {}, [1], '9223372036854775808', '-9223372036854775809', 1e19]
const notFloat = ['', ' ', 'x', '0x10', '1,5', 'NaN(1)', true, {}, [1], '1e400', '-1e400']

const wrong: Record<Kind, unknown[]> = {
  text: [...notText, ...unstorable],
  id: [...notText, ...unstorable],
  int64: notInteger,
  flag: ['', 'yes', '1', 1, 0, {}, []],
  float: notFloat,
  any: unstorable,
  list: ['x', 5, true, {}, { length: 1 }],
  object: ['x', 5, true, [], [{}]],
  percent: [...notFloat, -0.001, 100.001, 'NaN', 'Infinity'],
  bytes: [...notInteger, -1, '-1'],
  safe: [...notInteger, '9007199254740993'],
}

let service: TwoUsers
let experimentKey: string
let readAll: () => Promise<string[]>

beforeAll(async () => {
  service = await openTwoUsers({ isAdmin: true })
  const { client, workspaceName } = service
  experimentKey = await client.createExperiment({ projectName: 'project' })
  const reads = [
    '/workspaces',
    '/admin/audit',
    `/projects?workspaceName=${workspaceName}`,
    `/experiment/metadata?experimentKey=${experimentKey}`,
    `/experiments?${new URLSearchParams({ workspaceName, projectName: 'project' })}`,
    `/experiment/parameters?experimentKey=${experimentKey}`,
    `/experiment/log-other?experimentKey=${experimentKey}`,
    `/experiment/tags?experimentKey=${experimentKey}`,
    `/experiment/html?experimentKey=${experimentKey}`,
    `/experiment/code?experimentKey=${experimentKey}`,
    `/experiment/graph?experimentKey=${experimentKey}`,
    `/experiment/git/metadata?experimentKey=${experimentKey}`,
    `/experiment/system-details?experimentKey=${experimentKey}`,
    `/experiment/cloud-details?experimentKey=${experimentKey}`,
    `/experiment/metrics/summary?experimentKey=${experimentKey}`,
    `/experiment/metrics/get-metric?experimentKey=${experimentKey}&metricName=name`,
    `/experiment/metrics/get-metric?experimentKey=${experimentKey}&metricName=sys.ram.total`,
    `/experiment/metrics/get-metric?experimentKey=${experimentKey}&metricName=sys.load.average`,
    `/experiment/output?experimentKey=${experimentKey}`,
    `/registry-model?workspaceName=${workspaceName}`,
  ]
  readAll = () => Promise.all(reads.map(async (path) => (await client.get(path)).text))
})
afterAll(() => service?.close())

/** A right body for the write, with one field changed. */
function bodyWith({ body, fields }: Write, path?: string, value?: unknown): Record<string, unknown> {
  const { workspaceName } = service
  const whole: Record<string, unknown> = structuredClone({
    ...(fields.includes(experiment) && { experimentKey }),
    ...body,
    ...('workspaceName' in body && { workspaceName }),
  })
  if (path !== undefined) put(whole, path, value)
  return whole
}

function put(target: object, path: string, value: unknown) {
  const steps = path.match(/[^.[\]]+/g) ?? []
  const parent = steps
    .slice(0, -1)
    .reduce((it, step) => it[step] as Record<string, unknown>, target as Record<string, unknown>)
  parent[steps.at(-1) as string] = value
}

const missingCode = (path: string, write: Write) =>
  path === 'projectName'
    ? codes.projectNameMissing
    : path === 'experimentKey' && write.fields.includes(experiment)
      ? codes.experimentKeyMissing
      : codes.badRequest

const startsWith = (text: string) => new RegExp(`^${text.replace(/[.[\]]/g, '\\$&')}`)

const ofExperiment = writes.filter((it) => it.fields.includes(experiment))

describe('wrong requests', () => {
  let before: string[]
  beforeAll(async () => {
    before = await readAll()
  })
  afterAll(async () => {
    expect(await readAll()).toEqual(before)
  })

  describe.each([...writes, ...webhooks, ...administration])('$path', (write) => {
    const { path, method = 'POST', fields } = write
    const send = (body: unknown) => service.client.send(method, path, JSON.stringify(body))

    it.each(fields.filter(([, , presence]) => presence === 'required'))(
      'names %s when it is missing or null',
      async (field) => {
        const kind = fields.find(([path]) => path === field)?.[1]
        for (const value of kind === 'any' ? [undefined] : [undefined, null]) {
          // JSON has no undefined: in a list it would be null.
          if (value === undefined && field.endsWith(']')) continue
          const answer = await send(bodyWith(write, field, value))
          expectRefusal(answer, 400, missingCode(field, write), startsWith(`${field}: is missing`))
        }
      },
    )

    it.each(fields)('names %s (%s) when it has the wrong kind of value', async (field, kind) => {
      for (const value of wrong[kind]) {
        const answer = await send(bodyWith(write, field, value))
        expectRefusal(answer, 400, codes.badRequest, startsWith(`${field}: `))
      }
    })

    it.each(fields.filter(([, kind]) => kind === 'text' || kind === 'id' || kind === 'any'))(
      'says of %s (%s) that it cannot hold NUL or half of a surrogate pair',
      async (field) => {
        for (const value of unstorable) {
          const answer = await send(bodyWith(write, field, value))
          const message = `${field}: must not hold NUL or half of a surrogate pair`
          expectRefusal(answer, 400, codes.badRequest, message)
        }
      },
    )

    it.each([['[]'], ['"text"'], ['5'], ['true'], ['[{"experimentKey":"x"}]']])(
      'refuses %s, which is no object',
      async (body) => {
        expectRefusal(
          await service.client.send(method, path, body),
          400,
          codes.badRequest,
          'the body: expected an object',
        )
      },
    )

    it('rejects null and {}, and names what is missing', async () => {
      const [first] = fields.filter(([, , presence]) => presence === 'required') as [Field]
      for (const body of ['null', '{}']) {
        const answer = await service.client.send(method, path, body)
        expect([answer.status, answer.body.code]).toEqual([400, 400])
        expect(answer.body.msg).toMatch(new RegExp(`^(${first[0]}|the body): is missing$`))
      }
    })
  })

  describe.each(ofExperiment)('$path', (write) => {
    const { path } = write

    it('a foreign experiment and one that is not there answer the same but for the key', async () => {
      const absentKey = '0'.repeat(32)

      const foreignAnswer = await service.stranger.post(path, bodyWith(write))
      const absentAnswer = await service.stranger.post(path, { ...bodyWith(write), experimentKey: absentKey })

      const message = `There is no experiment ${experimentKey} that this key may use.`
      expectRefusal(foreignAnswer, 400, codes.experimentUnknown, message)
      expect(absentAnswer.text).toBe(foreignAnswer.text.replace(experimentKey, absentKey))
      expect([...absentAnswer.headers].filter(([name]) => name !== 'date')).toEqual(
        [...foreignAnswer.headers].filter(([name]) => name !== 'date'),
      )
    })
  })
})

describe.each(ofExperiment)('$path', (write) => {
  const { path, fields } = write

  it('accepts null for every optional field, and ignores unknown fields of any shape', async () => {
    const body = bodyWith(write)
    for (const [field, , presence] of fields) {
      if (presence === 'optional' && !field.includes('[') && field !== 'metrics') put(body, field, null)
    }
    const text = JSON.stringify(body).replace(
      /^\{/,
      '{"unknown":{"experimentKey":[null]},"__proto__":{"experimentKey":5,"step":"x"},"constructor":{"prototype":1},"toString":null,"":1,',
    )

    const answer = await service.client.postRaw(path, text)

    expect([answer.status, answer.body.msg, answer.body.sdk_error_code]).toEqual([200, 'Saved', 0])
    expect(({} as Record<string, unknown>).experimentKey).toBeUndefined()
  })

  it('accepts integers, numbers and flags as strings', async () => {
    const body = bodyWith(write)
    for (const [field, kind] of fields) {
      if (kind === 'int64') put(body, field, ' -9223372036854775808 ')
      if (kind === 'float' || kind === 'percent' || kind === 'bytes' || kind === 'safe') put(body, field, '1')
      if (kind === 'flag') put(body, field, 'true')
    }

    const answer = await service.client.post(path, body)

    expect([answer.status, answer.body.msg]).toEqual([200, 'Saved'])
  })

  it('a key that names no experiment is not echoed at length', async () => {
    const answer = await service.client.post(path, { ...bodyWith(write), experimentKey: 'k'.repeat(200) })

    expectRefusal(
      answer,
      400,
      codes.experimentUnknown,
      `There is no experiment ${'k'.repeat(60)} that this key may use.`,
    )
  })
})

const reads = [
  '/write/experiment/set-status?',
  '/experiment/metadata?',
  '/experiment/parameters?',
  '/experiment/log-other?',
  '/experiment/tags?',
  '/experiment/metrics/summary?',
  '/experiment/metrics/get-metric?metricName=name&',
  '/experiment/output?',
]

describe.each(reads)('GET %s', (path) => {
  it('a foreign experiment and one that is not there answer the same but for the key', async () => {
    const absentKey = '0'.repeat(32)

    const foreignAnswer = await service.stranger.get(`${path}experimentKey=${experimentKey}`)
    const absentAnswer = await service.stranger.get(`${path}experimentKey=${absentKey}`)

    const message = `There is no experiment ${experimentKey} that this key may use.`
    expectRefusal(foreignAnswer, 400, codes.experimentUnknown, message)
    expect(absentAnswer.text).toBe(foreignAnswer.text.replace(experimentKey, absentKey))
  })

  it.each([
    ['', codes.experimentKeyMissing, 'experimentKey: is missing'],
    ['experimentKey=', codes.experimentKeyMissing, 'experimentKey: must not be empty'],
    ['experimentKey=a&experimentKey=b', codes.badRequest, 'experimentKey: expected a string'],
    ['experimentKey=a%00b', codes.badRequest, 'experimentKey: must not hold NUL or half of a surrogate pair'],
    [`experimentKey=${'x'.repeat(201)}`, codes.badRequest, 'experimentKey: must have 200 characters or fewer'],
  ])('names the key in %s', async (query, code, message) => {
    expectRefusal(await service.client.get(path + query), 400, code, message)
  })

  it('unknown fields, repeated ones and invalid percent-encoding are harmless', async () => {
    const answer = await service.client.get(
      `${path}experimentKey=${experimentKey}&x=1&x=2&__proto__=1&constructor[prototype]=1&%zz=%&%00=%ff&&=`,
    )

    expect(answer.status).toBe(200)
    expect(() => parseExactJson(answer.text)).not.toThrow()
  })
})
