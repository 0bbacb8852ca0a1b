import { afterAll, beforeAll, expect, it } from 'vitest'
import { anEvent } from '../../kit/clients/monitoring.ts'
import { createRegistryClient, type Source } from '../../kit/clients/registry.ts'
import { eventually } from '../../kit/eventually.ts'
import { createClient } from '../../kit/http/client.ts'
import { uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
beforeAll(async () => {
  service = await openTwoUsers()
})
afterAll(() => service?.close())

type Listed = { modelName: string; latestVersion: string | null; stages: unknown[]; monitored: boolean }
type Page = { total: number; models: Listed[]; nextPage: string | null }

/** A workspace of its own with its registry. */
async function openRegistry() {
  const workspaceName = uniqueName('workspace')
  await service.client.post('/write/workspace/new', { name: workspaceName })
  const client = createClient(service.url, { apiKey: service.apiKey, workspaceName })
  const search = async (query: Record<string, string> = {}) => {
    const answer = await client.get(`/registry-model/search?${new URLSearchParams({ workspaceName, ...query })}`)
    expect(answer.status, answer.text).toBe(200)
    return answer.body as Page
  }
  return { workspaceName, client, search, registry: createRegistryClient({ ...service, workspaceName, client }) }
}
const namesOf = ({ models }: Page) => models.map((it) => it.modelName)

it('finds models by name, description and stage, in any case, with the version that each stage is at', async () => {
  const { registry, search } = await openRegistry()
  const source: Source = await registry.aSource()
  await registry.aModel({ registryModelName: 'Digits', stages: ['staging', 'production'] }, source)
  const { experimentModelId } = source
  await registry.post('/write/registry-model/item', {
    experimentModelId,
    registryModelName: 'Digits',
    version: '1.10.0',
    stages: ['staging'],
  })
  await registry.post('/write/registry-model/item', {
    experimentModelId,
    registryModelName: 'Digits',
    version: '1.9.0',
    stages: ['staging', '50%_'],
  })
  await registry.aModel({ registryModelName: 'churn', description: 'who is LEAVING' }, source)

  expect(await search()).toMatchObject({
    total: 2,
    nextPage: null,
    models: [
      { modelName: 'churn', latestVersion: '1.0.0', stages: [] },
      {
        modelName: 'Digits',
        numberOfVersions: 3,
        latestVersion: '1.10.0',
        stages: [
          { stage: '50%_', version: '1.9.0' },
          { stage: 'production', version: '1.0.0' },
          { stage: 'staging', version: '1.10.0' },
        ],
        monitored: false,
      },
    ],
  })
  for (const [text, found] of [
    ['DIGIT', ['Digits']],
    ['leaving', ['churn']],
    ['Production', ['Digits']],
    ['%', ['Digits']],
    ['nothing of this', []],
  ] as const) {
    const page = await search({ search: text })
    expect([namesOf(page), page.total], text).toEqual([found, found.length])
  }
})

it('is paged by name without a gap, and a model that reports is told from one that does not', async () => {
  const { registry, search, client, workspaceName } = await openRegistry()
  const source = await registry.aSource()
  const names = ['a', 'b', 'c', 'd', 'e']
  for (const registryModelName of names) await registry.aModel({ registryModelName }, source)
  const answer = await client.post('/mpm/v2/events/batch', { data: [anEvent({ workspaceName, modelName: 'b' })] })
  expect(answer.status, answer.text).toBe(200)

  const read: string[] = []
  let page: string | null = '0'
  while (page !== null) {
    const found: Page = await search({ order: 'name', pageSize: '2', page })
    expect(found.total).toBe(5)
    read.push(...namesOf(found))
    page = found.nextPage
  }
  expect(read).toEqual(names)
  await eventually(async () => {
    const { models } = await search({ order: 'name' })
    expect(models.filter((it) => it.monitored).map((it) => it.modelName)).toEqual(['b'])
  })
  const details = async (modelName: string) => (await registry.read('/registry-model/compact-details', modelName)).body
  expect(await details('b')).toMatchObject({ isWritable: true, monitored: true })
  expect(await details('a')).toMatchObject({ isWritable: true, monitored: false })
})

it('a workspace that is absent or foreign answers the same; a wrong order is named', async () => {
  const { workspaceName, client } = await openRegistry()
  const ask = (query: Record<string, string>) => client.get(`/registry-model/search?${new URLSearchParams(query)}`)
  for (const name of ['no-such-workspace', service.stranger.workspaceName]) {
    expectRefusal(
      await ask({ workspaceName: name }),
      400,
      codes.workspaceUnknown,
      `There is no workspace "${name}" that this key may use.`,
    )
  }
  expectRefusal(
    await ask({ workspaceName, order: 'size' }),
    400,
    codes.badRequest,
    'order: must be one of lastUpdated, name',
  )
})
