import { afterAll, beforeAll, expect, it } from 'vitest'
import { aPoint } from '../../kit/builders.ts'
import { uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
beforeAll(async () => {
  service = await openTwoUsers()
})
afterAll(() => service?.close())

it('column-names lists every column of the experiments in a project, with type and source', async () => {
  const { client, workspaceName } = service
  const projectName = uniqueName('project')
  const log = async (experimentKey: string, values: Record<string, unknown>) => {
    for (const [parameterName, parameterValue] of Object.entries(values)) {
      await client.post('/write/experiment/parameter', { experimentKey, parameterName, parameterValue })
    }
  }
  const [one, two] = [await client.createExperiment({ projectName }), await client.createExperiment({ projectName })]
  await log(one, { rate: 0.1, depth: 3, verbose: true, kind: '7', mixed: 1 })
  await log(two, { rate: '1e-3', depth: 'NaN', verbose: 'False', kind: 'x', mixed: true })
  await client.post('/write/experiment/log-other', { experimentKey: one, key: 'note', value: 'a' })
  await client.post('/write/experiment/metric', { experimentKey: two, ...aPoint({ context: 'train' }) })
  await client.waitForSummary(two, 'train_loss')

  const read = async (more: Record<string, string> = {}) => {
    const query = new URLSearchParams({ workspaceName, projectName, ...more })
    const { columns } = (await client.get(`/project/column-names?${query}`)).body as {
      columns: { name: string; id: string; type: string; source: string }[]
    }
    return columns
  }
  const columns = await read()
  for (const { id, name, source } of columns) expect(id).toBe(`${name}--${source}`)
  const withoutMetadata = columns.filter((it) => it.source !== 'metadata').map((it) => `${it.id} ${it.type}`)
  expect(withoutMetadata).toEqual([
    'Name--log_other string',
    'note--log_other string',
    'depth--params double',
    'kind--params string',
    'mixed--params string',
    'rate--params double',
    'verbose--params boolean',
    'train_loss--metrics double',
  ])
  expect(columns).toContainEqual({
    name: 'startTimeMillis',
    id: 'startTimeMillis--metadata',
    type: 'datetime',
    source: 'metadata',
  })

  await client.get(`/write/experiment/archive?experimentKey=${two}`)
  expect((await read()).map((it) => it.id)).not.toContain('train_loss--metrics')
  expect((await read({ archived: 'true' })).map((it) => it.id)).toContain('train_loss--metrics')
})

it('column-names of an absent project is rejected', async () => {
  const answer = await service.client.get('/project/column-names?projectId=absent')
  expectRefusal(answer, 400, codes.projectUnknown, /no such project/)
})
