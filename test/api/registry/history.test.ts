import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRegistryClient } from '../../kit/clients/registry.ts'
import { uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
let registry: ReturnType<typeof createRegistryClient>
beforeAll(async () => {
  service = await openTwoUsers()
  registry = createRegistryClient(service)
})
afterAll(() => service?.close())

type Event = Record<string, unknown> & { action: string }

const readPage = async (modelName: string, more?: Record<string, string>) => {
  const { body } = await registry.read('/registry-model/history', modelName, more)
  return body as { events: Event[]; nextPage: string | null }
}

describe('registry-model/history', () => {
  it('lists every change with user, time, and the values before and after; newest first', async () => {
    const source = await registry.aSource()
    const fields = { description: 'what for', version: '1.2.3', comment: 'first', stages: ['a', 'b'] }
    const model = await registry.aModel(fields, source)
    const { registryModelName, registryModelId, registryModelItemId } = model
    const { workspaceName, userName } = service
    const newName = uniqueName('renamed')
    const item = { modelItemId: registryModelItemId }
    await registry.change('/write/registry-model/item/stage', { ...item, stage: 'c' })
    await registry.change('/write/registry-model/item/stage/delete', { ...item, stage: 'a' })
    await registry.post('/write/registry-model/item/update', { registryModelItemId, comment: 'second' })
    await registry.post('/write/registry-model/item/update', {
      registryModelItemId,
      comment: 'third',
      stages: ['b', 'd'],
    })
    await registry.post('/write/registry-model/update', { registryModelId, description: 'else', isPublic: true })
    await registry.post('/write/registry-model/notes', { workspaceName, registryModelName, notes: 'n' })
    await registry.post('/write/registry-model/update', {
      registryModelId,
      registryModelName: newName,
      description: 'else',
    })
    await registry.change('/write/registry-model/item/delete', item)
    await registry.change('/write/registry-model/delete', { workspaceName, modelName: newName })

    const { events, nextPage } = await readPage(newName)

    const { experimentModelId, experimentKey } = source
    const none = {
      registryModelItemId: null,
      version: null,
      stages: null,
      experimentModelId: null,
      experimentKey: null,
    }
    const ofModel = (registryModelName: string) => ({ registryModelName, ...none, addedStages: [], removedStages: [] })
    const ofVersion = (stages: string[], changed: { added?: string[]; removed?: string[] } = {}) => ({
      registryModelName,
      registryModelItemId,
      version: '1.2.3',
      stages,
      addedStages: changed.added ?? [],
      removedStages: changed.removed ?? [],
      experimentModelId,
      experimentKey,
    })
    const expected = [
      {
        action: 'MODEL_CREATED',
        event: null,
        ...ofModel(registryModelName),
        before: {},
        after: { registryModelName, description: 'what for', isPublic: false },
      },
      {
        action: 'MODEL_VERSION_CREATED',
        event: 'MODEL_VERSION_CREATED',
        ...ofVersion(['a', 'b'], { added: ['a', 'b'] }),
        before: {},
        after: { version: '1.2.3', comment: 'first', stages: ['a', 'b'], status: 'None' },
      },
      {
        action: 'MODEL_VERSION_STAGE_ADDED',
        event: 'MODEL_VERSION_STAGE_CHANGED',
        ...ofVersion(['a', 'b', 'c'], { added: ['c'] }),
        before: { stages: ['a', 'b'] },
        after: { stages: ['a', 'b', 'c'] },
      },
      {
        action: 'MODEL_VERSION_STAGE_REMOVED',
        event: 'MODEL_VERSION_STAGE_CHANGED',
        ...ofVersion(['b', 'c'], { removed: ['a'] }),
        before: { stages: ['a', 'b', 'c'] },
        after: { stages: ['b', 'c'] },
      },
      {
        action: 'MODEL_VERSION_UPDATED',
        event: null,
        ...ofVersion(['b', 'c']),
        before: { comment: 'first' },
        after: { comment: 'second' },
      },
      {
        action: 'MODEL_VERSION_STAGES_CHANGED',
        event: 'MODEL_VERSION_STAGE_CHANGED',
        ...ofVersion(['b', 'd'], { added: ['d'], removed: ['c'] }),
        before: { comment: 'second', stages: ['b', 'c'] },
        after: { comment: 'third', stages: ['b', 'd'] },
      },
      {
        action: 'MODEL_UPDATED',
        event: 'MODEL_UPDATED',
        ...ofModel(registryModelName),
        before: { description: 'what for', isPublic: false },
        after: { description: 'else', isPublic: true },
      },
      {
        action: 'MODEL_NOTES_CHANGED',
        event: 'MODEL_UPDATED',
        ...ofModel(registryModelName),
        before: { notes: '' },
        after: { notes: 'n' },
      },
      {
        action: 'MODEL_RENAMED',
        event: 'MODEL_UPDATED',
        ...ofModel(newName),
        before: { registryModelName },
        after: { registryModelName: newName },
      },
      {
        action: 'MODEL_VERSION_DELETED',
        event: 'MODEL_VERSION_DELETED',
        ...ofVersion(['b', 'd']),
        registryModelName: newName,
        before: { version: '1.2.3', comment: 'third', stages: ['b', 'd'] },
        after: {},
      },
      {
        action: 'MODEL_DELETED',
        event: 'MODEL_DELETED',
        ...ofModel(newName),
        before: { registryModelName: newName, description: 'else', isPublic: true, notes: 'n', versions: [] },
        after: {},
      },
    ]
    const common = { workspaceName, registryModelId, userName, timestamp: expect.closeTo(Date.now(), -5) }
    expect(events.toReversed()).toEqual(expected.map((it) => ({ ...common, ...it })))
    expect(nextPage).toBeNull()
    const times = events.map((it) => it.timestamp as number)
    expect(times).toEqual(times.toSorted((a, b) => b - a))
  })

  it('does not list requests that changed nothing or were rejected', async () => {
    const { registryModelName, registryModelId, registryModelItemId } = await registry.aModel({ stages: ['a'] })
    const { workspaceName } = service
    const same = [
      await registry.post('/write/registry-model/update', { registryModelId, registryModelName, isPublic: false }),
      await registry.post('/write/registry-model/item/update', { registryModelItemId, comment: '', stages: ['a'] }),
      await registry.post('/write/registry-model/notes', { workspaceName, registryModelName, notes: '' }),
    ]
    expect(same.map((it) => it.status)).toEqual([200, 200, 200])
    const refused = await registry.change('/write/registry-model/item/stage', {
      modelItemId: registryModelItemId,
      stage: 'a',
    })
    expect(refused.status).toBe(400)
    expect((await readPage(registryModelName)).events).toHaveLength(2)
  })

  it('is paged without repetitions or gaps while changes continue', async () => {
    const { registryModelName, registryModelItemId: modelItemId } = await registry.aModel()
    const change = async (path: string) => {
      expect((await registry.change(path, { modelItemId, stage: 'a' })).status).toBe(200)
    }
    for (let at = 0; at < 4; at++) {
      await change('/write/registry-model/item/stage')
      await change('/write/registry-model/item/stage/delete')
    }
    const pages: string[][] = []
    let page: string | null = ''
    while (page !== null) {
      const read = await readPage(registryModelName, { pageSize: '4', ...(page && { page }) })
      pages.push(read.events.map((it) => it.action))
      page = read.nextPage
      await change(
        pages.length % 2 === 1 ? '/write/registry-model/item/stage' : '/write/registry-model/item/stage/delete',
      )
    }
    const [added, removed] = ['MODEL_VERSION_STAGE_ADDED', 'MODEL_VERSION_STAGE_REMOVED']
    const pair = [removed, added, removed, added]
    expect(pages).toEqual([pair, pair, ['MODEL_VERSION_CREATED', 'MODEL_CREATED']])
    const wrong = await registry.read('/registry-model/history', registryModelName, { page: 'x' })
    expectRefusal(wrong, 400, codes.badRequest, 'page: expected the nextPage of an earlier answer')
    const size = await registry.read('/registry-model/history', registryModelName, { pageSize: '1001' })
    expectRefusal(size, 400, codes.badRequest, 'pageSize: must be 1000 or fewer')
  })

  it('keeps long notes byte for byte, and limits the size of a page', async () => {
    const { registryModelName } = await registry.aModel()
    const { workspaceName } = service
    const texts = Array.from({ length: 5 }, (_, at) => `${at}é`.repeat(1_000_000))
    for (const notes of texts)
      await registry.post('/write/registry-model/notes', { workspaceName, registryModelName, notes })
    const found: string[] = []
    const sizes: number[] = []
    let page: string | null = ''
    while (page !== null) {
      const read = await readPage(registryModelName, page ? { page } : {})
      const notes = read.events.filter((it) => it.action === 'MODEL_NOTES_CHANGED')
      found.push(...notes.map((it) => (it.after as { notes: string }).notes))
      sizes.push(read.events.length)
      page = read.nextPage
    }
    // Comparing them as a whole would print megabytes.
    expect(found.toReversed().map((it, at) => it === texts[at])).toEqual([true, true, true, true, true])
    expect(sizes).toEqual([1, 1, 1, 4])
  })

  it('covers the workspace without a name, and else all models with the name, also deleted ones', async () => {
    const { workspaceName } = service
    const first = await registry.aModel()
    const { registryModelName } = first
    await registry.change('/write/registry-model/delete', { workspaceName, modelName: registryModelName })
    const second = await registry.aModel({ registryModelName })
    const other = await registry.aModel()
    const ids = (await readPage(registryModelName)).events.map((it) => it.registryModelId)
    const [a, b] = [first.registryModelId, second.registryModelId]
    expect(ids).toEqual([b, b, a, a, a])
    const { body } = await service.client.get(`/registry-model/history?workspaceName=${workspaceName}&pageSize=3`)
    const newest = (body.events as Event[]).map((it) => it.registryModelId)
    expect(newest).toEqual([other.registryModelId, other.registryModelId, b])
    expectRefusal(
      await registry.read('/registry-model/history', 'none'),
      400,
      42008,
      /^There is no registry model "none"/,
    )
  })
})
