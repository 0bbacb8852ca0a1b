import { afterAll, beforeAll, expect, it } from 'vitest'
import { aPoint } from '../../kit/builders.ts'
import { anEvent } from '../../kit/clients/monitoring.ts'
import { eventually } from '../../kit/eventually.ts'
import { uniqueName } from '../../kit/service.ts'
import { expectRefusal } from '../http-error.ts'
import { type Organization, openOrganization } from './organization.ts'

let organization: Organization
beforeAll(async () => {
  organization = await openOrganization()
})
afterAll(() => organization?.close())

type Sender = { experimentKey: string | null; projectName: string | null; name: string; lastMinute: number }
type Type = { type: string; perMinute: number; given: string; senders: (Sender & { perMinute: number })[] }
const read = async (workspaceName: string) => {
  const answer = await organization.admin.get(`/admin/usage?${new URLSearchParams({ workspaceName })}`)
  expect(answer.status, answer.text).toBe(200)
  const types = answer.body.types as Type[]
  return { body: answer.body, of: (type: string) => types.find((it) => it.type === type) as Type }
}
const limit = (body: object) => organization.admin.send('PUT', '/admin/limits', JSON.stringify(body))

it('what experiments and models send now stands beside the limit that holds for them', async () => {
  const { admin, workspaceName } = organization
  const idle = await read(workspaceName)
  expect(idle.of('metrics')).toMatchObject({ given: 'service', senders: [] })
  expect(idle.body).toMatchObject({ throttled: [], fileBytes: 0, fileBytesMax: null })

  await limit({ workspaceName, limits: { metricsPerMinute: 5_000, eventsPerMinute: 90, metricNamesMax: 7 } })
  const busy = await admin.createExperiment({ projectName: 'busy', experimentName: 'the busy one' })
  const quiet = await admin.createExperiment({ projectName: 'quiet', experimentName: 'the quiet one' })
  await limit({ workspaceName, projectName: 'quiet', limits: { metricsPerMinute: 40, pointsPerMetricMax: 999 } })
  const send = (experimentKey: string, count: number) =>
    admin.post('/write/experiment/metrics/batch', {
      experimentKey,
      metrics: Array.from({ length: count }, (_, step) => aPoint({ step })),
    })
  // Whoever waits for longer than a minute must send again.
  await eventually(async () => {
    expect((await send(busy, 300)).status).toBe(200)
    expect((await send(quiet, 3)).status).toBe(200)
    await admin.post('/mpm/v2/events/batch', { data: [anEvent({ workspaceName, modelName: 'fraud' })] })
    await eventually(async () => {
      const { of } = await read(workspaceName)
      const { senders, ...metrics } = of('metrics')
      expect(metrics).toEqual({ type: 'metrics', perMinute: 5_000, given: 'workspace' })
      expect(senders.map(({ lastMinute: _, ...it }) => it)).toEqual([
        { experimentKey: busy, projectName: 'busy', name: 'the busy one', perMinute: 5_000, given: 'workspace' },
        { experimentKey: quiet, projectName: 'quiet', name: 'the quiet one', perMinute: 40, given: 'project' },
      ])
      expect(senders[0]?.lastMinute).toBeGreaterThan(0)
      expect((senders[0]?.lastMinute as number) % 1).toBe(0)
      expect(of('events').senders).toEqual([
        {
          experimentKey: null,
          projectName: null,
          name: 'fraud',
          lastMinute: expect.any(Number),
          perMinute: 90,
          given: 'workspace',
        },
      ])
      expect(of('output')).toMatchObject({ given: 'service', senders: [] })
      const { experiments } = (await read(workspaceName)).body
      expect(experiments).toMatchObject([
        { experimentKey: busy, metricNames: 1, metricNamesMax: 7, pointsPerMetricMax: 10_000_000 },
        { experimentKey: quiet, metricNames: 1, metricNamesMax: 7, pointsPerMetricMax: 999 },
      ])
      // Each attempt has sent 300, and 3.
      const [ofBusy = 0, ofQuiet = 0] = (experiments as { pointsMost: number }[]).map((it) => it.pointsMost)
      expect([ofBusy % 300, ofQuiet % 3]).toEqual([0, 0])
      expect(ofQuiet).toBeGreaterThan(0)
    }, 20_000)
  }, 120_000)

  // Its project has 40 a minute: what is over them is told with its reason.
  await eventually(async () => expect((await send(quiet, 40)).status).toBe(429), 120_000)
  await eventually(async () => {
    expect((await read(workspaceName)).body.throttled).toEqual([
      {
        experimentKey: quiet,
        projectName: 'quiet',
        name: 'the quiet one',
        reason: expect.stringContaining('over 40 a minute'),
        lastAt: expect.any(Number),
      },
    ])
  }, 120_000)
})

it('all workspaces of the organization are listed, and no others; nobody else’s can be asked for', async () => {
  const name = uniqueName('another')
  await organization.createWorkspace(name)
  await organization.createColleague('somebody')
  const { workspaces } = (await organization.admin.get('/admin/workspaces')).body
  expect(workspaces).toEqual(
    [
      { workspaceName: name, members: 1, projects: 0 },
      { workspaceName: organization.workspaceName, members: 1, projects: 2 },
      // Of the colleague: an admin sees it without being a member.
      { workspaceName: 'somebody', members: 1, projects: 0 },
    ].sort((a, b) => (a.workspaceName < b.workspaceName ? -1 : 1)),
  )
  for (const workspaceName of ['absent', organization.strangersWorkspace]) {
    expectRefusal(
      await organization.admin.get(`/admin/usage?workspaceName=${workspaceName}`),
      400,
      90_219,
      `There is no workspace "${workspaceName}" in your organization.`,
    )
  }
})
