import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
let workspaceName: string
beforeAll(async () => {
  service = await openTwoUsers()
  workspaceName = service.workspaceName
})
afterAll(() => service?.close())

const call = (path: string, experimentKey: string) => service.client.get(`${path}?experimentKey=${experimentKey}`)

const metadata = async (experimentKey: string) =>
  await service.client.get(`/experiment/metadata?experimentKey=${experimentKey}`)

async function listKeys(projectName: string, more: Record<string, string> = {}): Promise<string[]> {
  const { body } = await service.client.get(
    `/experiments?${new URLSearchParams({ workspaceName, projectName, ...more })}`,
  )
  return (body.experiments as { experimentKey: string }[]).map((it) => it.experimentKey)
}

const envelope = (msg: string) => ({ msg, code: 200, data: null, sdk_error_code: 0 })
const notThere = (experimentKey: string) => `There is no experiment ${experimentKey} that this key may use.`

describe('an experiment', () => {
  it('that is asked to stop is told in the answer to its next keep-alive', async () => {
    const experimentKey = await service.client.createExperiment()
    expect((await call('/write/experiment/set-status', experimentKey)).body).toMatchObject({ stopRequested: false })
    expect((await call('/write/experiment/stop', experimentKey)).body).toEqual(envelope('Stop Requested'))
    expect((await call('/write/experiment/set-status', experimentKey)).body).toMatchObject({ stopRequested: true })
  })

  it('that is archived is listed only among the archived, still accepts data, and can be restored', async () => {
    const projectName = uniqueName('project')
    const experimentKey = await service.client.createExperiment({ projectName })
    expect((await call('/write/experiment/archive', experimentKey)).body).toEqual(envelope('Archived'))
    expect((await metadata(experimentKey)).body).toMatchObject({ archived: true })
    expect([await listKeys(projectName), await listKeys(projectName, { archived: 'true' })]).toEqual([
      [],
      [experimentKey],
    ])
    expect((await service.client.post('/write/experiment/metric', { experimentKey, ...aPoint() })).status).toBe(200)
    await service.client.readPoints(experimentKey, 'loss', 1)

    expect((await call('/write/experiment/restore', experimentKey)).body).toEqual(envelope('Restore'))
    expect((await metadata(experimentKey)).body).toMatchObject({ archived: false })
    expect(await listKeys(projectName)).toEqual([experimentKey])
  })

  it('that is deleted is absent for everyone, until it is restored with all its data', async () => {
    const projectName = uniqueName('project')
    const experimentKey = await service.client.createExperiment({ projectName })
    await service.client.post('/write/experiment/metric', { experimentKey, ...aPoint() })
    await service.client.readPoints(experimentKey, 'loss', 1)
    expect((await call('/write/experiment/delete', experimentKey)).body).toEqual(envelope('Deleted'))

    expectRefusal(await metadata(experimentKey), 400, codes.experimentUnknown, notThere(experimentKey))
    for (const name of ['delete', 'archive', 'stop', 'set-status']) {
      expectRefusal(
        await call(`/write/experiment/${name}`, experimentKey),
        400,
        codes.experimentUnknown,
        notThere(experimentKey),
      )
    }
    const parameter = { experimentKey, parameterName: 'a', parameterValue: 1 }
    const write = await service.client.post('/write/experiment/parameter', parameter)
    expectRefusal(write, 400, codes.experimentUnknown, notThere(experimentKey))
    expect([await listKeys(projectName), await listKeys(projectName, { archived: 'true' })]).toEqual([[], []])
    const project = await service.client.get(`/project?${new URLSearchParams({ workspaceName, projectName })}`)
    expect(project.body.numberOfExperiments).toBe(0)
    // Ingest knows an experiment for some seconds after it has gone.
    await eventually(async () => {
      const point = await service.client.post('/write/experiment/metric', { experimentKey, ...aPoint() })
      expectRefusal(point, 400, codes.experimentUnknown, notThere(experimentKey))
    })

    expect((await call('/write/experiment/restore', experimentKey)).body).toEqual(envelope('Restore'))
    expect(await listKeys(projectName)).toEqual([experimentKey])
    expect((await service.client.readMetric(experimentKey, 'loss')).length).toBeGreaterThanOrEqual(1)
  })

  it.each(['stop', 'archive', 'delete', 'restore'])('of another user rejects %s', async (name) => {
    const experimentKey = await service.client.createExperiment()
    const before = (await metadata(experimentKey)).text
    const path = `/write/experiment/${name}?experimentKey=`
    const foreign = await service.stranger.get(path + experimentKey)
    expectRefusal(foreign, 400, codes.experimentUnknown, notThere(experimentKey))
    const absent = await service.stranger.get(path + '0'.repeat(32))
    expect(absent.text).toBe(foreign.text.replace(experimentKey, '0'.repeat(32)))
    expectRefusal(await service.client.get(path), 400, codes.experimentKeyMissing, /^experimentKey: /)
    expect((await metadata(experimentKey)).text).toBe(before)
  })
})

describe('experiment/move', () => {
  const move = (body: Record<string, unknown>, client = service.client) =>
    client.post('/write/experiment/move', { targetWorkspaceName: workspaceName, symlink: false, ...body })

  async function aProject(): Promise<string> {
    const projectName = uniqueName('project')
    await service.client.post('/write/project/create', {
      workspaceName,
      projectName,
      projectDescription: '',
      isPublic: false,
    })
    return projectName
  }

  it('moves many at once, with their data', async () => {
    const [from, to] = [await aProject(), await aProject()]
    const experimentKeys = await Promise.all(
      [1, 2, 3].map(() => service.client.createExperiment({ projectName: from })),
    )
    const answer = await move({ targetProjectName: to, experimentKeys })
    expect(answer.body).toEqual(envelope('Moved'))
    expect(await listKeys(from)).toEqual([])
    expect((await listKeys(to)).toSorted()).toEqual(experimentKeys.toSorted())
    expect((await metadata(experimentKeys[0] as string)).body).toMatchObject({ projectName: to, workspaceName })
  })

  it('lists them once in both projects when symlink is true, also after repetitions', async () => {
    const [from, to] = [await aProject(), await aProject()]
    const experimentKey = await service.client.createExperiment({ projectName: from })
    for (let at = 0; at < 2; at++) {
      const answer = await move({ targetProjectName: to, experimentKeys: [experimentKey], symlink: true })
      expect(answer.body).toEqual(envelope('Symlinked'))
    }
    expect([await listKeys(from), await listKeys(to)]).toEqual([[experimentKey], [experimentKey]])
    expect((await metadata(experimentKey)).body).toMatchObject({ projectName: from })
    await move({ targetProjectName: to, experimentKeys: [experimentKey] })
    expect([await listKeys(from), await listKeys(to)]).toEqual([[], [experimentKey]])
  })

  it('moves all or none', async () => {
    const [from, to] = [await aProject(), await aProject()]
    const own = await service.client.createExperiment({ projectName: from })
    const foreign = await service.stranger.createExperiment()
    const answer = await move({ targetProjectName: to, experimentKeys: [own, foreign] })
    expectRefusal(answer, 400, codes.experimentUnknown, notThere(foreign))
    expect(await listKeys(from)).toEqual([own])
    const nowhere = await move({ targetProjectName: 'not there', experimentKeys: [own] })
    expectRefusal(nowhere, 400, codes.projectUnknown, /no such project/)
    const abroad = { targetWorkspaceName: service.stranger.workspaceName, targetProjectName: 'project' }
    expectRefusal(await move({ ...abroad, experimentKeys: [own] }), 400, codes.projectUnknown, /no such project/)
    expect(await listKeys(from)).toEqual([own])
  })

  it('names missing and invalid fields', async () => {
    const right: Record<string, unknown> = { targetProjectName: 'a', experimentKeys: [] }
    for (const field of ['targetWorkspaceName', 'targetProjectName', 'experimentKeys', 'symlink']) {
      const answer = await move({ ...right, [field]: null })
      expectRefusal(answer, 400, codes.badRequest, `${field}: is missing`)
    }
    const answer = await move({ ...right, experimentKeys: ['x', 5] })
    expectRefusal(answer, 400, codes.badRequest, 'experimentKeys[1]: expected a string')
  })
})

describe('project/symlink', () => {
  it.each(['exerimentKey', 'experimentKey'])('accepts the key as %s, and answers with the URL', async (spelling) => {
    const [from, to] = [uniqueName('from'), uniqueName('to')]
    const experimentKey = await service.client.createExperiment({ projectName: from })
    await service.client.createExperiment({ projectName: to })
    const query = new URLSearchParams({ [spelling]: experimentKey, projectName: to })
    const answer = await service.client.get(`/write/project/symlink?${query}`)
    expect(answer.body).toEqual({
      ...envelope('Ok'),
      link: expect.stringMatching(new RegExp(`^http://.*/${workspaceName}/${to}/${experimentKey}$`)),
    })
    expect(await listKeys(to)).toContain(experimentKey)
  })

  it('names the missing key', async () => {
    const answer = await service.client.get('/write/project/symlink?projectName=a')
    expectRefusal(answer, 400, codes.experimentKeyMissing, 'experimentKey: is missing')
  })
})
