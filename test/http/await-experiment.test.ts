import { afterAll, beforeAll, expect, it } from 'vitest'
import { codes, expectRefusal } from '../api/http-error.ts'
import { aPoint } from '../kit/builders.ts'
import { openTestService, uniqueName } from '../kit/service.ts'

let service: Awaited<ReturnType<typeof openTestService>>
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service?.close())

const aKey = () => uniqueName('awaited').replaceAll('-', '').padEnd(32, '0')

const writes = (experimentKey: string): [string, object][] => [
  ['/write/experiment/metric', { experimentKey, ...aPoint(), metricName: 'loss' }],
  ['/write/experiment/parameter', { experimentKey, parameterName: 'rate', parameterValue: '0.5' }],
  ['/write/experiment/update-status', { experimentKey, isAlive: false }],
]

it('a write that prefers to wait is stored once its experiment is created', async () => {
  const experimentKey = aKey()
  const { client } = service
  const headers = { prefer: 'wait=10' }
  const written = writes(experimentKey).map(([path, body]) => client.post(path, body, { headers }))
  const refused = await client.post(...(writes(experimentKey)[0] as [string, object]))
  expectRefusal(refused, 400, codes.experimentUnknown, /./)
  await client.createExperiment({ experimentKey })
  expect((await Promise.all(written)).map((it) => it.status)).toEqual([200, 200, 200])
  expect(await client.readPoints(experimentKey, 'loss', 1)).toHaveLength(1)
})

it('a write waits no longer than it prefers', async () => {
  for (const [path, body] of writes(aKey())) {
    const answer = await service.client.post(path, body, { headers: { prefer: 'respond-async, wait=1' } })
    expectRefusal(answer, 400, codes.experimentUnknown, /./)
  }
})
