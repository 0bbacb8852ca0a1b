import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { uniqueName } from '../../kit/service.ts'
import { codes, expectRefusal } from '../http-error.ts'
import { openTwoUsers, type TwoUsers } from './two-users.ts'

let service: TwoUsers
beforeAll(async () => {
  service = await openTwoUsers()
})
afterAll(() => service?.close())

describe('workspace/new', () => {
  it('makes a workspace that its maker sees and nobody else does', async () => {
    const name = uniqueName('new')

    const answer = await service.client.post('/write/workspace/new', { name, plan: 'any' })

    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(answer.body).toEqual({
      msg: 'Workspace created',
      workspace_name: name,
      workspace_id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/),
      code: 200,
      data: null,
      sdk_error_code: 0,
    })
    expect((await service.client.get('/workspaces')).body.workspaceNames).toContain(name)
    expect((await service.stranger.get('/workspaces')).body.workspaceNames).not.toContain(name)
  })

  it('a new workspace can hold projects and experiments at once', async () => {
    const workspaceName = uniqueName('new')
    await service.client.post('/write/workspace/new', { name: workspaceName })

    const experimentKey = await service.client.createExperiment({ workspaceName, projectName: 'first' })

    const metadata = await service.client.get(`/experiment/metadata?experimentKey=${experimentKey}`)
    expect(metadata.body).toMatchObject({ workspaceName, projectName: 'first' })
  })

  it('a name that is taken is refused, and the first workspace stays', async () => {
    const name = uniqueName('taken')
    await service.client.post('/write/workspace/new', { name })

    const again = await service.client.post('/write/workspace/new', { name })

    expectRefusal(
      again,
      400,
      codes.workspaceExists,
      `name: there is a workspace "${name}" already; choose another name.`,
    )
    const { workspaceNames } = (await service.client.get('/workspaces')).body as { workspaceNames: string[] }
    expect(workspaceNames.filter((it) => it === name)).toHaveLength(1)
  })

  it('of many requests for one name at the same time exactly one makes it', async () => {
    const name = uniqueName('race')

    const answers = await Promise.all(
      Array.from({ length: 10 }, () => service.client.post('/write/workspace/new', { name })),
    )

    expect(answers.map((it) => it.status).toSorted()).toEqual([200, ...Array(9).fill(400)])
  })

  it('a name of 100 characters is taken, one of 101 is refused', async () => {
    const name = uniqueName('long').padEnd(100, '\u{4e00}')

    expect((await service.client.post('/write/workspace/new', { name })).status).toBe(200)
    const longer = await service.client.post('/write/workspace/new', { name: `${name}x` })

    expectRefusal(longer, 400, codes.badRequest, 'name: must have 100 characters or fewer')
  })
})

describe('workspaces', () => {
  it('lists the names and nothing else', async () => {
    const answer = await service.stranger.get('/workspaces')

    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(answer.body).toEqual({ workspaceNames: [service.stranger.workspaceName] })
  })
})

describe('account-details', () => {
  it('tells whose key it is and the workspace used when none is named', async () => {
    const answer = await service.client.get('/account-details')

    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(answer.body).toEqual({ userName: service.userName, defaultWorkspaceName: service.workspaceName })
  })
})
