import { afterAll, beforeAll, expect, it } from 'vitest'
import { aPoint } from '../../kit/builders.ts'
import { anEvent } from '../../kit/clients/monitoring.ts'
import { eventually } from '../../kit/eventually.ts'
import type { TestClient } from '../../kit/http/client.ts'
import { uniqueName } from '../../kit/service.ts'
import { codes, expectRefusal } from '../http-error.ts'
import { type Organization, openOrganization } from './organization.ts'

let organization: Organization
let admin: TestClient
beforeAll(async () => {
  organization = await openOrganization()
  admin = organization.admin
})
afterAll(() => organization?.close())

const limit = async (target: object, limits: object) => {
  const answer = await admin.send('PUT', '/admin/limits', JSON.stringify({ ...target, limits }))
  expect(answer.status, answer.text).toBe(200)
  return answer.body.limits
}
const newWorkspace = () => organization.createWorkspace(uniqueName('tenant'))

type Used = { name: string; used: number; max: number | null }
async function usage(workspaceName: string) {
  const answer = await admin.get(`/workspace/usage?${new URLSearchParams({ workspaceName })}`)
  expect(answer.status, answer.text).toBe(200)
  const toMap = (used: Used[]) => Object.fromEntries(used.map(({ name, used, max }) => [name, [used, max]]))
  return { workspace: toMap(answer.body.workspace as Used[]), organization: toMap(answer.body.organization as Used[]) }
}

const send = (experimentKey: string, count: number) =>
  admin.post('/write/experiment/metrics/batch', {
    experimentKey,
    metrics: Array.from({ length: count }, (_, step) => aPoint({ step })),
  })

it('all points of a workspace together are held to its limit, and those of another are not', async () => {
  const [workspaceName, quietWorkspace] = [await newWorkspace(), await newWorkspace()]
  await limit({ workspaceName }, { pointsPerMinute: 100 })
  const first = await admin.createExperiment({ workspaceName })
  const second = await admin.createExperiment({ workspaceName })
  const quiet = await admin.createExperiment({ workspaceName: quietWorkspace })
  // A bucket fills up again while requests are under way.
  let accepted = 0
  let refusal: Awaited<ReturnType<typeof send>> | undefined
  for (let at = 0; refusal === undefined; at++) {
    const answer = await send(at % 2 === 0 ? first : second, 40)
    if (answer.status === 429) refusal = answer
    else accepted += 40
  }
  expect(accepted).toBeGreaterThanOrEqual(80)
  expectRefusal(
    refusal,
    429,
    codes.throttled,
    /^Too much was sent for this workspace: the limit is 100 metric points a minute\. Nothing of this request was kept: send it again in \d+ s\.$/,
  )
  expect(Number(refusal.headers.get('retry-after'))).toBeGreaterThan(0)
  const events = { data: Array.from({ length: 90 }, () => anEvent({ workspaceName, modelName: 'fraud' })) }
  expect((await admin.post('/mpm/v2/events/batch', events)).status).toBe(429)
  expect((await send(quiet, 5_000)).status).toBe(200)
  // What was refused was not charged to the experiment, and what was acknowledged is there.
  await eventually(async () => {
    const points = [await admin.readMetric(first, 'loss'), await admin.readMetric(second, 'loss')].flat()
    expect(points).toHaveLength(accepted)
  })
  await eventually(async () => expect((await usage(workspaceName)).workspace.pointsPerMinute?.[1]).toBe(100))
})

it('experiments are refused over the limit of the workspace and of the organization, by each way to make one', async () => {
  const own = await openOrganization()
  const client = own.admin
  const workspaceName = await own.createWorkspace(uniqueName('tenant'))
  const set = (target: object, limits: object) =>
    client.send('PUT', '/admin/limits', JSON.stringify({ ...target, limits }))
  await set({ workspaceName }, { experimentsMax: 2 })
  const experimentKey = await client.createExperiment({ workspaceName, projectName: 'p' })
  await client.createExperiment({ workspaceName, projectName: 'p' })
  const message = `The workspace "${workspaceName}" has 2 experiments; the limit is 2 (experimentsMax): delete some, or ask an admin for more.`
  const create = (name = workspaceName) =>
    client.post('/write/experiment/create', { workspaceName: name, projectName: 'p' })
  expectRefusal(await create(), 403, 8000154, message)
  const logging = await client.post('/clientlib/logger/add/run', {
    experimentKey: 'k'.repeat(32),
    teamName: workspaceName,
  })
  expectRefusal(logging, 403, 8000154, message)
  // Another workspace has room, until the organization has none.
  expect((await create(own.workspaceName)).status).toBe(200)
  await set({ organization: true }, { experimentsMax: 3 })
  expectRefusal(await create(own.workspaceName), 403, 8000154, /^This organization has 3 experiments; the limit is 3/)
  // One that is deleted makes room.
  await set({ organization: true }, { experimentsMax: null })
  await client.get(`/write/experiment/delete?experimentKey=${experimentKey}`)
  expect((await create()).status).toBe(200)
  await own.close()
})

it('files are refused over the limit of bytes, and the usage says how much there is', async () => {
  const workspaceName = await newWorkspace()
  const experimentKey = await admin.createExperiment({ workspaceName })
  await limit({ workspaceName }, { fileBytesMax: 1_000 })
  const upload = (bytes: number) =>
    admin.send(
      'POST',
      `/write/experiment/upload-asset?${new URLSearchParams({ experimentKey, fileName: uniqueName('file') })}`,
      Buffer.alloc(bytes, 1) as never,
      { headers: { 'content-type': 'application/octet-stream' } },
    )
  expect((await upload(600)).status).toBe(200)
  const refused = await upload(600)
  expect([refused.status, refused.body.sdk_error_code]).toEqual([400, 90501])
  expect(refused.body.msg).toBe(
    `The workspace "${workspaceName}" has 600 bytes of files; the limit is 1000 (fileBytesMax): delete some, or ask an admin for more.`,
  )
  expect((await usage(workspaceName)).workspace).toMatchObject({
    fileBytesMax: [600, 1_000],
    experimentsMax: [1, null],
  })
})

it('live streams of a workspace are refused over its limit, and those of another one are not', async () => {
  const [workspaceName, otherWorkspace] = [await newWorkspace(), await newWorkspace()]
  await limit({ workspaceName }, { streamsMax: 2 })
  const own = await admin.createExperiment({ workspaceName })
  const other = await admin.createExperiment({ workspaceName: otherWorkspace })
  const stop = new AbortController()
  const open = (experimentKey: string) =>
    fetch(`${organization.url}/api/rest/v2/experiment/stream?experimentKey=${experimentKey}`, {
      headers: { authorization: organization.apiKey },
      signal: stop.signal,
    })
  const opened = [await open(own), await open(own), await open(other)]
  expect(opened.map((it) => it.status)).toEqual([200, 200, 200])
  const refused = await open(own)
  expect(refused.status).toBe(429)
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(((await refused.json()) as { msg: string }).msg).toMatch(
    /^The workspace ".+" has 2 streams open at once, .*the limit streamsMax\): wait until one has ended/,
  )
  // Meanwhile others stream, write and read.
  const alsoOpened = await open(other)
  expect(alsoOpened.status).toBe(200)
  expect((await send(other, 10)).status).toBe(200)
  expect((await usage(workspaceName)).workspace.streamsMax).toEqual([2, 2])
  const metrics = await (await fetch(`${organization.url}/metrics`)).text()
  expect(metrics).toMatch(/^svc_tenant_refused_total\{limit="streamsMax"\} [1-9]/m)
  expect(metrics).toMatch(/^svc_tenant_in_use\{limit="streamsMax"\} [3-9]/m)
  expect(metrics).not.toContain(workspaceName)
  stop.abort()
  await eventually(async () => expect((await usage(workspaceName)).workspace.streamsMax).toEqual([0, 2]))
})

it.each([
  [{ keyId: 'none' }, { streamsMax: 1 }, /^limits\.streamsMax: holds for a workspace or the organization/],
  [{ organization: true }, { metricsPerMinute: 1 }, /^limits\.metricsPerMinute: holds for an experiment/],
  [{ organization: true, workspaceName: 'w' }, {}, /^Name the organization by organization=true, a workspace/],
  [{ organization: true }, { queriesMax: 0 }, 'limits.queriesMax: must be 1 or more'],
])('%o with %o is refused by name', async (target, limits, message) => {
  const answer = await admin.send('PUT', '/admin/limits', JSON.stringify({ ...target, limits }))
  expectRefusal(answer, 400, codes.badRequest, message)
})

it('the usage of a foreign workspace looks like that of an absent one', async () => {
  const read = (workspaceName: string) =>
    organization.stranger.get(`/workspace/usage?${new URLSearchParams({ workspaceName })}`)
  const foreign = await read(organization.workspaceName)
  const absent = await read('nowhere')
  expect(foreign.status).toBe(400)
  expect(foreign.text.replaceAll(organization.workspaceName, 'nowhere')).toBe(absent.text)
})
