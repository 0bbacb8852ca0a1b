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

const create = (fields: Record<string, unknown>) =>
  service.client.post('/write/experiment/create', { workspaceName, projectName: 'project', ...fields })

const readMetadata = async (experimentKey: string) =>
  (await service.client.get(`/experiment/metadata?experimentKey=${experimentKey}`)).body

const randomKey = () => uniqueName('').replace('-', '').padEnd(32, '0')

describe('experiment/create', () => {
  it('creates the experiment, and its project when absent', async () => {
    const projectName = uniqueName('a project / with %')

    const answer = await create({ projectName, experimentName: 'first try' })

    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toBe('application/json')
    const experimentKey = answer.body.experimentKey as string
    expect(experimentKey).toMatch(/^[0-9a-f]{32}$/)
    expect(answer.body).toEqual({
      msg: 'Experiment created',
      experimentKey,
      workspaceName,
      projectName,
      name: 'first try',
      link: expect.stringMatching(new RegExp(`/${workspaceName}/${encodeURIComponent(projectName)}/${experimentKey}$`)),
      code: 200,
      data: null,
      sdk_error_code: 0,
    })
    const project = await service.client.get(`/project?${new URLSearchParams({ workspaceName, projectName })}`)
    expect(project.body).toMatchObject({ projectName, numberOfExperiments: 1 })
  })

  it('without a name the service chooses one, and stores it as the only other', async () => {
    const { body } = await create({})
    const { experimentKey, name } = body as { experimentKey: string; name: string }

    expect(name).toMatch(/^[a-z]+_[a-z]+_\d{4}$/)
    expect(await readMetadata(experimentKey)).toMatchObject({ experimentName: name })
    const others = await service.client.get(`/experiment/log-other?experimentKey=${experimentKey}`)
    expect(others.body.values).toEqual([expect.objectContaining({ name: 'Name', valueCurrent: name })])
  })

  it.each([32, 50])('accepts a key of %i letters and digits from the caller', async (length) => {
    const experimentKey = randomKey().padEnd(length, 'Z')

    expect((await create({ experimentKey })).body.experimentKey).toBe(experimentKey)
    expect(await readMetadata(experimentKey)).toMatchObject({ experimentKey })
  })

  it.each(['short', 'x'.repeat(31), 'x'.repeat(51), `${'x'.repeat(31)}-`, `${'x'.repeat(31)}é`])(
    'refuses the key %s by name',
    async (experimentKey) => {
      expectRefusal(
        await create({ experimentKey }),
        400,
        codes.badRequest,
        'experimentKey: must have 32 to 50 letters and digits; leave it out to get one',
      )
    },
  )

  it('a key that exists answers 90999 and leaves no project behind', async () => {
    const experimentKey = randomKey()
    await create({ experimentKey, experimentName: 'the first' })
    const projectName = uniqueName('project')

    const again = await create({ experimentKey, projectName })

    expectRefusal(again, 400, codes.experimentExists, /^experimentKey: there is an experiment \w+ already/)
    const project = await service.client.get(`/project?${new URLSearchParams({ workspaceName, projectName })}`)
    expectRefusal(project, 404, codes.projectNameUnknown, /no such project/)
    expect(await readMetadata(experimentKey)).toMatchObject({ experimentName: 'the first', projectName: 'project' })
  })

  it('of concurrent requests for one key exactly one creates it', async () => {
    const experimentKey = randomKey()

    const answers = await Promise.all(Array.from({ length: 10 }, () => create({ experimentKey })))

    expect(answers.map((it) => it.status).toSorted()).toEqual([200, ...Array(9).fill(400)])
  })

  it('experiments created concurrently share one new project', async () => {
    const projectName = uniqueName('project')

    const answers = await Promise.all(Array.from({ length: 20 }, () => create({ projectName })))

    expect(new Set(answers.map((it) => it.body.experimentKey)).size).toBe(20)
    const project = await service.client.get(`/project?${new URLSearchParams({ workspaceName, projectName })}`)
    expect(project.body.numberOfExperiments).toBe(20)
  })

  it('an unknown workspace and a foreign one answer the same but for the name', async () => {
    const absent = uniqueName('workspace')
    const post = (workspaceName: string) =>
      service.stranger.post('/write/experiment/create', { workspaceName, projectName: 'project' })

    const foreignAnswer = await post(workspaceName)

    expectRefusal(
      foreignAnswer,
      400,
      codes.workspaceUnknown,
      `There is no workspace "${workspaceName}" that this key may use.`,
    )
    expect((await post(absent)).text).toBe(foreignAnswer.text.replace(workspaceName, absent))
  })

  it('a project name of more than 100 characters answers 1341241', async () => {
    expectRefusal(
      await create({ projectName: 'x'.repeat(101) }),
      400,
      codes.projectNameTooLong,
      'projectName: must have 100 characters or fewer',
    )
  })
})

describe('experiment/metadata', () => {
  it('has every field after creation', async () => {
    const before = Date.now()
    const experimentKey = await service.client.createExperiment({ experimentName: 'a name' })

    const answer = await service.client.get(`/experiment/metadata?experimentKey=${experimentKey}`)

    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(answer.body).toEqual({
      experimentKey,
      experimentName: 'a name',
      optimizationId: null,
      userName: service.userName,
      projectId: expect.stringMatching(/^[0-9a-f]{32}$/),
      projectName: 'project',
      workspaceName,
      filePath: null,
      fileName: null,
      durationMillis: 0,
      startTimeMillis: expect.any(Number),
      endTimeMillis: answer.body.startTimeMillis,
      archived: false,
      running: false,
      throttle: false,
      hasCrashed: false,
      link: expect.stringMatching(new RegExp(`^http://.*/${workspaceName}/project/${experimentKey}$`)),
    })
    expect(answer.body.startTimeMillis).toBeGreaterThanOrEqual(before)
    expect(answer.body.startTimeMillis).toBeLessThanOrEqual(Date.now())
  })

  it('the end follows the last activity until it is set', async () => {
    const experimentKey = await service.client.createExperiment()
    const { startTimeMillis } = await readMetadata(experimentKey)

    await eventually(async () => {
      await service.client.post('/write/experiment/metric', { experimentKey, ...aPoint() })
      const { endTimeMillis, durationMillis } = await readMetadata(experimentKey)
      expect(endTimeMillis).toBeGreaterThan(startTimeMillis as number)
      expect(durationMillis).toBe((endTimeMillis as number) - (startTimeMillis as number))
    })
  })
})

describe('experiment/set-status', () => {
  it('returns the intervals, and the experiment is running within 2 s', async () => {
    const experimentKey = await service.client.createExperiment()

    const answer = await service.client.get(`/write/experiment/set-status?experimentKey=${experimentKey}`)

    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({
      msg: 'Ok',
      isAliveBeatDurationMillis: 10_000,
      gpuMonitorIntervalMillis: expect.any(Number),
      cpuMonitorIntervalMillis: expect.any(Number),
      stopRequested: false,
      rpcCalls: [],
      code: 200,
      data: null,
      sdk_error_code: 0,
    })
    await eventually(async () => expect(await readMetadata(experimentKey)).toMatchObject({ running: true }), 2_000)
  })

  it('logging alone does not set an experiment running', async () => {
    const experimentKey = await service.client.createExperiment()
    const other = await service.client.createExperiment()

    await service.client.post('/write/experiment/metric', { experimentKey, ...aPoint() })
    await service.client.get(`/write/experiment/set-status?experimentKey=${other}`)

    await eventually(async () => expect(await readMetadata(other)).toMatchObject({ running: true }))
    expect(await readMetadata(experimentKey)).toMatchObject({ running: false })
  })
})

describe('experiment/set-start-end-time', () => {
  const setTimes = (fields: Record<string, unknown>) =>
    service.client.post('/write/experiment/set-start-end-time', fields)

  it('sets the given fields and keeps the others', async () => {
    const experimentKey = await service.client.createExperiment()

    const answer = await setTimes({ experimentKey, startTimeMillis: 1_000 })
    expect(answer.text).toBe('{"msg":"Saved","code":200,"data":null,"sdk_error_code":0}')
    expect(await readMetadata(experimentKey)).toMatchObject({ startTimeMillis: 1_000 })

    await setTimes({ experimentKey, startTimeMillis: null, endTimeMillis: '5000' })
    expect(await readMetadata(experimentKey)).toMatchObject({
      startTimeMillis: 1_000,
      endTimeMillis: 5_000,
      durationMillis: 4_000,
    })
  })

  it('keeps times of 64 bits to the last digit', async () => {
    const experimentKey = await service.client.createExperiment()
    const [start, end] = [-(2n ** 63n), 2n ** 63n - 1n]

    await service.client.postRaw(
      '/write/experiment/set-start-end-time',
      `{"experimentKey":"${experimentKey}","startTimeMillis":${start},"endTimeMillis":${end}}`,
    )

    const { text } = await service.client.get(`/experiment/metadata?experimentKey=${experimentKey}`)
    expect(text).toContain(`"durationMillis":${end - start},"startTimeMillis":${start},"endTimeMillis":${end}`)
  })
})

describe('experiments', () => {
  it('lists a project in the order its experiments were made, by id and by names', async () => {
    const projectName = uniqueName('project')
    const keys = []
    for (let at = 0; at < 3; at++) keys.push(await service.client.createExperiment({ projectName }))
    const { projectId } = await readMetadata(keys[0] as string)

    const byId = await service.client.get(`/experiments?projectId=${projectId}`)
    const byNames = await service.client.get(`/experiments?${new URLSearchParams({ workspaceName, projectName })}`)

    expect(byId.body.nextPage).toBeNull()
    expect((byId.body.experiments as { experimentKey: string }[]).map((it) => it.experimentKey)).toEqual(keys)
    const { link, ...ofFirst } = await readMetadata(keys[0] as string)
    expect((byId.body.experiments as unknown[])[0]).toEqual(ofFirst)
    expect(byNames.text).toBe(byId.text)
    expect((await service.client.get(`/experiments?projectId=${projectId}&archived=true`)).body.experiments).toEqual([])
  })

  it.each([1, 2, 3, 6, 7, 8])('pages of %i hold every experiment once, in order', async (pageSize) => {
    const projectName = uniqueName('project')
    const keys: string[] = []
    for (let at = 0; at < 7; at++) keys.push(await service.client.createExperiment({ projectName }))
    const names = { workspaceName, projectName, pageSize: String(pageSize) }

    const seen: string[] = []
    for (let page: string | null = '0'; page !== null; ) {
      const { body } = await service.client.get(`/experiments?${new URLSearchParams({ ...names, page })}`)
      const shown = body.experiments as { experimentKey: string }[]
      expect(shown.length).toBeLessThanOrEqual(pageSize)
      expect(shown.length).toBeGreaterThan(0)
      seen.push(...shown.map((it) => it.experimentKey))
      page = body.nextPage as string | null
    }

    expect(seen).toEqual(keys)
  })

  it.each([
    ['pageSize=0', 'pageSize: must be 1 or more'],
    ['pageSize=-1', 'pageSize: must be 1 or more'],
    ['pageSize=1.5', 'pageSize: expected an integer'],
    ['pageSize=ten', 'pageSize: expected an integer'],
    ['pageSize=10001', 'pageSize: must be 10000 or fewer'],
    ['page=-1', 'page: expected a number from 1, or the nextPage of an earlier answer'],
    ['page=x', 'page: expected a number from 1, or the nextPage of an earlier answer'],
    ['page=99999999999999999999', 'page: expected a number from 1, or the nextPage of an earlier answer'],
    ['archived=maybe', 'archived: expected true or false'],
  ])('refuses %s by name', async (query, message) => {
    const { projectId } = await readMetadata(await service.client.createExperiment())

    expectRefusal(
      await service.client.get(`/experiments?projectId=${projectId}&${query}`),
      400,
      codes.badRequest,
      message,
    )
  })

  it('a foreign and an absent project answer the same bytes', async () => {
    const { projectId } = await readMetadata(await service.client.createExperiment())

    const foreignAnswer = await service.stranger.get(`/experiments?projectId=${projectId}`)
    const absentAnswer = await service.stranger.get(`/experiments?projectId=${'0'.repeat(32)}`)

    expectRefusal(foreignAnswer, 400, codes.projectUnknown, 'There is no such project that this key may use.')
    expect(absentAnswer.text).toBe(foreignAnswer.text)
  })
})
