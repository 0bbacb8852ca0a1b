import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRegistryClient, type Source } from '../../kit/clients/registry.ts'
import type { Answer } from '../../kit/http/client.ts'
import { openTestService, uniqueName } from '../../kit/service.ts'
import { expectRefusal } from '../http-error.ts'

let service: Awaited<ReturnType<typeof openTestService>>
let registry: ReturnType<typeof createRegistryClient>
let source: Source
beforeAll(async () => {
  service = await openTestService()
  registry = createRegistryClient(service)
  source = await registry.aSource()
})
afterAll(() => service?.close())

const atOnce = 20
const twenty = <T>(call: (at: number) => Promise<T>) => Promise.all(Array.from({ length: atOnce }, (_, at) => call(at)))

/** One of them was done, and all the others were refused so. */
function expectOneWinner(answers: Answer[], code: number, message: RegExp): Answer {
  const [winner, ...others] = answers.toSorted((a, b) => a.status - b.status)
  expect([winner?.status, others.length]).toEqual([200, atOnce - 1])
  for (const it of others) expectRefusal(it, 400, code, message)
  return winner as Answer
}

const details = async (modelName: string) => (await registry.read('/registry-model/details', modelName)).body
const actions = async (modelName: string) => {
  const { body } = await registry.read('/registry-model/history', modelName)
  return (body.events as { action: string }[]).map((it) => it.action)
}

describe('of twenty at once', () => {
  it('that register one name, one does', async () => {
    const registryModelName = uniqueName('wanted')
    const { experimentModelId } = source
    const answers = await twenty((at) =>
      registry.post('/write/registry-model', { experimentModelId, registryModelName, description: `of ${at}` }),
    )
    const { body } = expectOneWinner(
      answers,
      8000060,
      /^registryModelName: the workspace has a registry model ".*" already/,
    )
    const { registryModelId, registryModelItemId } = body
    expect(await details(registryModelName)).toMatchObject({
      registryModelId,
      description: `of ${answers.findIndex((it) => it.status === 200)}`,
      versions: [{ registryModelItemId, version: '1.0.0' }],
    })
    expect(await actions(registryModelName)).toEqual(['MODEL_VERSION_CREATED', 'MODEL_CREATED'])
  })

  it('that add one version, one does', async () => {
    const { registryModelName, experimentModelId } = await registry.aModel({}, source)
    const answers = await twenty(() =>
      registry.post('/write/registry-model/item', { experimentModelId, registryModelName, version: '2.0.0' }),
    )
    expectOneWinner(answers, 8000062, /^version: the registry model ".*" has a version 2\.0\.0 already/)
    expect(await registry.listVersions(registryModelName)).toEqual(['1.0.0', '2.0.0'])
  })

  it('that add a version without a number, each gets its own', async () => {
    const { registryModelName, experimentModelId } = await registry.aModel({}, source)
    const answers = await twenty(() =>
      registry.post('/write/registry-model/item', { experimentModelId, registryModelName }),
    )
    expect(answers.map((it) => it.status)).toEqual(Array.from({ length: atOnce }, () => 200))
    const numbers = Array.from({ length: atOnce + 1 }, (_, at) => `1.0.${at}`)
    expect(await registry.listVersions(registryModelName)).toEqual(numbers)
  })

  it('that are renamed to one name, one is', async () => {
    const models = await twenty(() => registry.aModel({}, source))
    const registryModelName = uniqueName('wanted')
    const answers = await twenty((at) =>
      registry.post('/write/registry-model/update', {
        registryModelId: models[at]?.registryModelId,
        registryModelName,
      }),
    )
    expectOneWinner(answers, 8000060, /^registryModelName: the workspace has a registry model ".*" already\.$/)
    const winner = models[answers.findIndex((it) => it.status === 200)]
    expect(await details(registryModelName)).toMatchObject({ registryModelId: winner?.registryModelId })
    for (const it of models.filter((it) => it !== winner)) {
      expect(await details(it.registryModelName)).toMatchObject({ registryModelId: it.registryModelId })
    }
  })

  it('that take each other’s names, none does, and each is told so', async () => {
    for (let round = 0; round < 5; round++) {
      const [one, other] = [await registry.aModel({}, source), await registry.aModel({}, source)]
      const answers = await twenty((at) => {
        const [from, to] = at % 2 === 0 ? [one, other] : [other, one]
        const { registryModelName } = to
        return registry.post('/write/registry-model/update', {
          registryModelId: from.registryModelId,
          registryModelName,
        })
      })
      for (const it of answers) expectRefusal(it, 400, 8000060, /^registryModelName: the workspace has/)
    }
  })

  it('that register a name and rename another model to it, one does', async () => {
    const { registryModelId, registryModelName } = await registry.aModel({}, source)
    const wanted = uniqueName('wanted')
    const { experimentModelId } = source
    const answers = await twenty((at) =>
      at % 2 === 0
        ? registry.post('/write/registry-model', { experimentModelId, registryModelName: wanted })
        : registry.post('/write/registry-model/update', { registryModelId, registryModelName: wanted }),
    )
    const done = answers.flatMap((it, at) => (it.status === 200 ? [at % 2] : []))
    // Who renames it to the name that it has been given already changes nothing.
    if (done.includes(0)) expect(done).toEqual([0])
    else expect(done).toEqual(Array.from({ length: atOnce / 2 }, () => 1))
    const wasRenamed = !done.includes(0)
    expect((await registry.read('/registry-model/details', registryModelName)).status).toBe(wasRenamed ? 400 : 200)
    expect((await details(wanted)).registryModelId === registryModelId).toBe(wasRenamed)
  })

  it('that add one stage, one does; that add others, all do', async () => {
    const { registryModelName, registryModelItemId: modelItemId } = await registry.aModel({}, source)
    const same = await twenty(() =>
      registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'production' }),
    )
    expectOneWinner(same, 8000064, /^stage: version 1\.0\.0 has the stage "production" already\.$/)
    const others = await twenty((at) =>
      registry.change('/write/registry-model/item/stage', { modelItemId, stage: `stage ${at}` }),
    )
    expect(others.map((it) => it.status)).toEqual(Array.from({ length: atOnce }, () => 200))
    const { stages } = (await registry.read('/registry-model/latest_version', registryModelName)).body as {
      stages: string[]
    }
    expect(stages.toSorted()).toEqual(
      ['production', ...Array.from({ length: atOnce }, (_, at) => `stage ${at}`)].toSorted(),
    )
  })

  it('that take one stage, or delete one version or model, one does', async () => {
    const { registryModelName, registryModelItemId: modelItemId } = await registry.aModel({ stages: ['a'] }, source)
    const stages = await twenty(() =>
      registry.change('/write/registry-model/item/stage/delete', { modelItemId, stage: 'a' }),
    )
    expectOneWinner(stages, 8000065, /^stage: version 1\.0\.0 has no stage "a"\.$/)
    const versions = await twenty(() => registry.change('/write/registry-model/item/delete', { modelItemId }))
    expectOneWinner(versions, 8000063, /^There is no registry model version/)
    const query = { workspaceName: service.workspaceName, modelName: registryModelName }
    const models = await twenty(() => registry.change('/write/registry-model/delete', query))
    expectOneWinner(models, 42008, /^There is no registry model/)
    const deleted = ['MODEL_DELETED', 'MODEL_VERSION_DELETED', 'MODEL_VERSION_STAGE_REMOVED']
    expect(await actions(registryModelName)).toEqual([...deleted, 'MODEL_VERSION_CREATED', 'MODEL_CREATED'])
  })

  it('that delete a model and add versions to it, none is left of a model that is gone', async () => {
    const { registryModelName, experimentModelId } = await registry.aModel({}, source)
    const query = { workspaceName: service.workspaceName, modelName: registryModelName }
    const answers = await twenty((at) =>
      at === atOnce / 2
        ? registry.change('/write/registry-model/delete', query)
        : registry.post('/write/registry-model/item', { experimentModelId, registryModelName }),
    )
    for (const it of answers.filter((it) => it.status !== 200))
      expectRefusal(it, 400, 42006, /^There is no registry model/)
    expect(answers[atOnce / 2]?.status).toBe(200)
    expect((await registry.read('/registry-model/details', registryModelName)).status).toBe(400)
    const { body } = await service.client.get(`/experiment/model?experimentKey=${source.experimentKey}`)
    const [{ registryRecords }] = body.models as [{ registryRecords: { registryModelName: string }[] }]
    expect(registryRecords.filter((it) => it.registryModelName === registryModelName)).toEqual([])
    const added = answers.filter((it) => it.status === 200 && 'registryModelItemId' in it.body).length
    const done = await actions(registryModelName)
    expect([done[0], done.length]).toEqual(['MODEL_DELETED', added + 3])
  })
})
