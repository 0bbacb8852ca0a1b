import { afterAll, beforeAll, describe, expect, it } from 'vitest'
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

async function createProject(projectName: string, more: Record<string, unknown> = {}): Promise<string> {
  const fields = { workspaceName, projectName, projectDescription: 'what it is for', isPublic: false, ...more }
  const answer = await service.client.post('/write/project/create', fields)
  expect(answer.status).toBe(200)
  return answer.body.projectId as string
}

const byNames = (projectName: string) => new URLSearchParams({ workspaceName, projectName })

describe('project/create', () => {
  it('creates a project that can be read by id and by names', async () => {
    const before = Date.now()
    const projectName = uniqueName('project')

    const answer = await service.client.post('/write/project/create', {
      workspaceName,
      projectName,
      projectDescription: 'two\nlines, “quoted”',
      isPublic: true,
    })

    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(answer.body).toEqual({
      msg: 'Project created',
      projectId: expect.stringMatching(/^[0-9a-f]{32}$/),
      code: 200,
      data: null,
      sdk_error_code: 0,
    })
    const byId = await service.client.get(`/project?projectId=${answer.body.projectId}`)
    expect(byId.body).toEqual({
      projectId: answer.body.projectId,
      projectName,
      ownerUserName: service.userName,
      projectDescription: 'two\nlines, “quoted”',
      workspaceName,
      numberOfExperiments: 0,
      lastUpdated: expect.any(Number),
      public: true,
      isPublic: true,
      archived: false,
    })
    expect(byId.body.lastUpdated).toBeGreaterThanOrEqual(before - 1_000)
    expect((await service.client.get(`/project?${byNames(projectName)}`)).text).toBe(byId.text)
  })

  it('accepts an empty description, and isPublic as a string', async () => {
    const projectId = await createProject(uniqueName('project'), { projectDescription: '', isPublic: 'true' })

    const { body } = await service.client.get(`/project?projectId=${projectId}`)
    expect(body).toMatchObject({ projectDescription: '', isPublic: true })
  })

  it('rejects a taken name', async () => {
    const projectName = uniqueName('project')
    const projectId = await createProject(projectName)

    const again = await service.client.post('/write/project/create', {
      workspaceName,
      projectName,
      projectDescription: 'another',
      isPublic: true,
    })

    expectRefusal(
      again,
      400,
      codes.projectExists,
      `projectName: the workspace "${workspaceName}" has a project "${projectName}" already.`,
    )
    const { body } = await service.client.get(`/project?projectId=${projectId}`)
    expect(body).toMatchObject({ projectDescription: 'what it is for', isPublic: false })
  })

  it('accepts a name of 100 characters, and answers 1341241 to one of 101', async () => {
    const projectName = uniqueName('project').padEnd(100, '\u{4e00}')
    await createProject(projectName)

    const fields = { workspaceName, projectName: `${projectName}x`, projectDescription: '', isPublic: false }

    const longer = await service.client.post('/write/project/create', fields)
    expectRefusal(longer, 400, codes.projectNameTooLong, 'projectName: must have 100 characters or fewer')
  })

  it.each([{ projectName: undefined }, { projectName: null }, { projectName: '' }])(
    'without a project name (%o) it answers 98219',
    async (name) => {
      const fields = { workspaceName, projectDescription: '', isPublic: false, ...name }

      const answer = await service.client.post('/write/project/create', fields)

      expectRefusal(answer, 400, codes.projectNameMissing, /^projectName: (is missing|must not be empty)$/)
    },
  )

  it('a foreign workspace and one that is not there answer the same but for the name', async () => {
    const absent = uniqueName('workspace')
    const post = (workspaceName: string) =>
      service.stranger.post('/write/project/create', {
        workspaceName,
        projectName: 'any',
        projectDescription: '',
        isPublic: false,
      })

    const foreignAnswer = await post(workspaceName)

    expectRefusal(
      foreignAnswer,
      400,
      codes.workspaceUnknown,
      `There is no workspace "${workspaceName}" that this key may use.`,
    )
    expect((await post(absent)).text).toBe(foreignAnswer.text.replace(workspaceName, absent))
  })
})

describe('projects', () => {
  it('lists a workspace by name, each entry as /project answers it', async () => {
    const workspaceName = uniqueName('workspace')
    await service.client.post('/write/workspace/new', { name: workspaceName })
    for (const projectName of ['b', 'a', 'c']) {
      const fields = { workspaceName, projectName, projectDescription: '', isPublic: false }
      await service.client.post('/write/project/create', fields)
    }

    const answer = await service.client.get(`/projects?workspaceName=${workspaceName}`)

    expect(answer.headers.get('content-type')).toBe('application/json')
    const projects = answer.body.projects as { projectName: string; projectId: string }[]
    expect(Object.keys(answer.body)).toEqual(['projects'])
    expect(projects.map((it) => it.projectName)).toEqual(['a', 'b', 'c'])
    for (const project of projects) {
      expect((await service.client.get(`/project?projectId=${project.projectId}`)).body).toEqual(project)
    }
  })

  it('counts experiments, and is updated by what they log', async () => {
    const projectName = uniqueName('project')
    const projectId = await createProject(projectName)
    const { lastUpdated: atFirst } = (await service.client.get(`/project?projectId=${projectId}`)).body
    const experimentKey = await service.client.createExperiment({ projectName })
    await service.client.createExperiment({ projectName })

    await service.client.post('/write/experiment/log-other', { experimentKey, key: 'any', value: 1 })

    await eventually(async () => {
      const { body } = await service.client.get(`/project?projectId=${projectId}`)
      expect(body.numberOfExperiments).toBe(2)
      expect(body.lastUpdated).toBeGreaterThan(atFirst as number)
    })
  })

  it('a foreign workspace and one that is not there answer the same but for the name', async () => {
    const absent = uniqueName('workspace')

    const foreignAnswer = await service.stranger.get(`/projects?workspaceName=${workspaceName}`)
    const absentAnswer = await service.stranger.get(`/projects?workspaceName=${absent}`)

    expectRefusal(
      foreignAnswer,
      400,
      codes.workspaceUnknown,
      `There is no workspace "${workspaceName}" that this key may use.`,
    )
    expect(absentAnswer.text).toBe(foreignAnswer.text.replace(workspaceName, absent))
  })

  it('without a workspace the message names the field', async () => {
    expectRefusal(await service.client.get('/projects'), 400, codes.badRequest, 'workspaceName: is missing')
  })
})

describe('project', () => {
  it('a foreign and an absent project answer the same bytes', async () => {
    const projectName = uniqueName('project')
    const projectId = await createProject(projectName, { isPublic: true })

    const message = 'There is no such project that this key may use.'
    for (const query of [`projectId=${projectId}`, `projectId=${'0'.repeat(32)}`]) {
      expectRefusal(await service.stranger.get(`/project?${query}`), 400, codes.projectUnknown, message)
    }
    // Existing clients take 404 for an answer to a name.
    const byName = [
      await service.stranger.get(`/project?${byNames(projectName)}`),
      await service.client.get(`/project?${byNames('not there')}`),
    ]
    for (const answer of byName) expectRefusal(answer, 404, codes.projectNameUnknown, message)
    expect(new Set(byName.map((it) => it.text)).size).toBe(1)
  })

  it('accepts either the id or both names', async () => {
    const projectName = uniqueName('project')
    const projectId = await createProject(projectName)
    const ask = (query: Record<string, string>) => service.client.get(`/project?${new URLSearchParams(query)}`)

    const expected = 'Name the project by projectId alone, or by workspaceName together with projectName.'
    expectRefusal(await ask({}), 400, codes.badRequest, expected)
    expectRefusal(await ask({ projectName }), 400, codes.badRequest, expected)
    expectRefusal(await ask({ projectId, projectName }), 400, codes.badRequest, expected)
    expectRefusal(await ask({ projectId, projectName, workspaceName }), 400, codes.badRequest, expected)
    expectRefusal(await ask({ workspaceName }), 400, codes.projectNameMissing, /^projectName: is missing/)
  })
})
