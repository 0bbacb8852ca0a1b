import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '../../kit/eventually.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
beforeAll(async () => {
  service = await openTwoUsers()
})
afterAll(() => service?.close())

const read = async (path: string, experimentKey: string) =>
  (await service.client.get(`${path}?experimentKey=${experimentKey}`)).body

async function write(path: string, body: Record<string, unknown>, method = 'POST') {
  const answer = await service.client.send(method, path, JSON.stringify(body))
  expect([answer.status, answer.text]).toEqual([200, '{"msg":"Saved","code":200,"data":null,"sdk_error_code":0}'])
}

const awkward = '<p title="x">“ü”\r\n\t\u0001\\ </p> {"a":1,  "b":[]} \u{1f600}'

describe('html', () => {
  it('is appended to, and replaced when override is true', async () => {
    const experimentKey = await service.client.createExperiment()
    expect(await read('/experiment/html', experimentKey)).toEqual({ html: null })
    await write('/write/experiment/html', { experimentKey, html: '<p>one</p>' })
    await write('/write/experiment/html', { experimentKey, html: '<p>two</p>', override: false })
    expect(await read('/experiment/html', experimentKey)).toEqual({ html: '<p>one</p><p>two</p>' })
    await write('/write/experiment/html', { experimentKey, html: awkward, override: true, timestamp: 5 })
    expect(await read('/experiment/html', experimentKey)).toEqual({ html: awkward })
  })

  it('that would exceed 16 MiB is rejected and unchanged', async () => {
    const experimentKey = await service.client.createExperiment()
    const html = 'x'.repeat(9 * 1024 * 1024)
    await write('/write/experiment/html', { experimentKey, html })
    const answer = await service.client.post('/write/experiment/html', { experimentKey, html })
    expectRefusal(answer, 413, codes.tooLarge, /^The body is over the limit of 16777216 bytes/)
    expect(((await read('/experiment/html', experimentKey)).html as string).length).toBe(html.length)
  })

  it('from concurrent writers is complete, each piece whole', async () => {
    const experimentKey = await service.client.createExperiment()
    const pieces = Array.from({ length: 20 }, (_, at) => `<i>${String(at).padStart(2, '0')}</i>`)
    await Promise.all(pieces.map((html) => write('/write/experiment/html', { experimentKey, html })))
    expect(((await read('/experiment/html', experimentKey)).html as string).match(/<i>\d\d<\/i>/g)?.toSorted()).toEqual(
      pieces,
    )
  })
})

describe.each(['code', 'graph'])('%s', (name) => {
  it('is read byte for byte as last written', async () => {
    const experimentKey = await service.client.createExperiment()
    expect(await read(`/experiment/${name}`, experimentKey)).toEqual({ [name]: null })
    await write(`/write/experiment/${name}`, { experimentKey, [name]: 'the first' })
    await write(`/write/experiment/${name}`, { experimentKey, [name]: awkward })
    expect(await read(`/experiment/${name}`, experimentKey)).toEqual({ [name]: awkward })
    await write(`/write/experiment/${name}`, { experimentKey, [name]: '' })
    expect(await read(`/experiment/${name}`, experimentKey)).toEqual({ [name]: '' })
  })
})

it('git metadata has nulls until it is sent', async () => {
  const experimentKey = await service.client.createExperiment()
  const none = { user: null, root: null, branch: null, parent: null, origin: null }
  expect(await read('/experiment/git/metadata', experimentKey)).toEqual(none)
  const git = { user: 'me', root: 'abc', branch: 'main', parent: 'def', origin: 'git@host:a/b.git' }
  await write('/write/experiment/git/metadata', { experimentKey, ...git, ignored: 1 })
  expect(await read('/experiment/git/metadata', experimentKey)).toEqual(git)
})

describe('system details', () => {
  it('are merged from several requests, and from resource usage', async () => {
    const experimentKey = await service.client.createExperiment()
    const nothing = await read('/experiment/system-details', experimentKey)
    expect(new Set(Object.values(nothing))).toEqual(new Set([null, expect.any(Array)]))
    expect(nothing).toMatchObject({ hostname: null, systemMetricNames: [], maxTotalMemory: null, totalRam: null })

    const gpu = { gpuIndex: 0, name: 'A', uuid: 'u', totalMemory: 85_899_345_920, powerLimit: 400 }
    await write('/write/experiment/system-details', {
      experimentKey,
      hostname: 'node-1',
      pid: '77',
      gpuStaticInfoList: [gpu],
    })
    await write('/write/experiment/system-details', {
      experimentKey,
      hostname: 'node-2',
      command: ['python', 'train.py', ''],
      logAdditionalSystemInfoList: [{ key: 'k', value: 'v' }],
      installedPackages: ['numpy==2.3.0'],
    })
    await write('/write/experiment/ram-metrics', { experimentKey, totalRam: 64_000, usedRam: 1 })
    const gpus = [0, 1].map((gpuId) => ({
      gpuId,
      freeMemory: 1,
      usedMemory: 1,
      totalMemory: 100 + gpuId,
      gpuUtilization: 5,
    }))
    await write('/write/experiment/gpu-metrics', { experimentKey, gpus })
    await eventually(async () => {
      const details = await read('/experiment/system-details', experimentKey)
      expect(details.systemMetricNames).toHaveLength(10)
      expect(details).toMatchObject({
        hostname: 'node-2',
        pid: 77,
        gpuStaticInfoList: [gpu],
        command: ['python', 'train.py', ''],
        logAdditionalSystemInfoList: [{ key: 'k', value: 'v' }],
        installedPackages: ['numpy==2.3.0'],
        osPackages: null,
        maxTotalMemory: 101,
        totalRam: 64_000,
      })
    })
  })
})

it('cloud details, dependencies and the file path are as last written', async () => {
  const experimentKey = await service.client.createExperiment()
  expect(await read('/experiment/cloud-details', experimentKey)).toEqual({ provider: null, metadata: {} })
  await write('/write/experiment/cloud-details', {
    experimentKey,
    provider: 'own',
    metadata: { zone: 'a', __proto__: 'x' },
  })
  await write('/write/experiment/cloud-details', { experimentKey, provider: 'own', metadata: { zone: 'b' } })
  expect(await read('/experiment/cloud-details', experimentKey)).toEqual({ provider: 'own', metadata: { zone: 'b' } })

  const wrong = { experimentKey, provider: 'own', metadata: { zone: 5 } }
  const refused = await service.client.post('/write/experiment/cloud-details', wrong)
  expectRefusal(refused, 400, codes.badRequest, 'metadata.zone: expected a string')

  expect(await read('/experiment/dependencies', experimentKey)).toEqual({ dependencies: [] })
  const logDependencies = [
    { name: 'b', version: '1' },
    { name: 'a', version: '2' },
  ]
  await write('/write/experiment/dependencies', { experimentKey, logDependencies }, 'PUT')
  expect(await read('/experiment/dependencies', experimentKey)).toEqual({ dependencies: logDependencies })

  await write('/write/experiment/file-path', { experimentKey, filePath: '/home/me/src/train.py' })
  expect(await read('/experiment/metadata', experimentKey)).toMatchObject({
    filePath: '/home/me/src/train.py',
    fileName: 'train.py',
  })
})

it('update-status reports that a run continues, and how it ended', async () => {
  const experimentKey = await service.client.createExperiment()
  expect(await read('/experiment/metadata', experimentKey)).toMatchObject({ hasCrashed: false })
  await write('/write/experiment/update-status', { experimentKey, isAlive: true })
  expect(await read('/experiment/metadata', experimentKey)).toMatchObject({ running: true })
  await write('/write/experiment/update-status', {
    experimentKey,
    isAlive: false,
    error: 'out of memory',
    hasCrashed: true,
  })
  expect(await read('/experiment/metadata', experimentKey)).toMatchObject({
    running: false,
    hasCrashed: true,
    error: 'out of memory',
  })
})

it('a finished run stays finished even if its last keep-alive is written later', async () => {
  const [over, other] = [await service.client.createExperiment(), await service.client.createExperiment()]
  const keepAlive = (key: string) => service.client.get(`/write/experiment/set-status?experimentKey=${key}`)
  await keepAlive(over)
  await write('/write/experiment/update-status', { experimentKey: over, isAlive: false })
  await keepAlive(other)

  // Keep-alives are written together, in the order they came.
  await expect.poll(() => read('/experiment/metadata', other), { timeout: 10_000 }).toMatchObject({ running: true })
  expect(await read('/experiment/metadata', over)).toMatchObject({ running: false })
  await keepAlive(over)
  await expect.poll(() => read('/experiment/metadata', over), { timeout: 10_000 }).toMatchObject({ running: true })
})
