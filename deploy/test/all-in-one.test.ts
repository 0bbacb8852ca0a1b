import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { eventually } from '../../test/kit/eventually.ts'
import { createClient } from '../../test/kit/http/client.ts'
import { given } from './given.ts'

const container = given('SVC_REHEARSAL_CONTAINER')
const user = { apiKey: given('SVC_API_KEY'), workspaceName: 'default' }
const run = promisify(execFile)

/** Waits until the container is healthy, and returns a client for its current port. */
async function openClient() {
  await eventually(async () => {
    const { stdout } = await run('docker', ['inspect', '--format', '{{.State.Health.Status}}', container])
    expect(stdout.trim()).toBe('healthy')
  }, 180_000)
  const { stdout } = await run('docker', ['port', container, '8080'])
  return createClient(`http://${stdout.trim()}`, user)
}

it('a point that is logged is read back, also after a stop and a start', async () => {
  const client = await openClient()
  const experimentKey = await client.createExperiment()
  const point = { experimentKey, metricName: 'loss', metricValue: 0.25, step: 1 }
  expect((await client.post('/write/experiment/metric', point)).status).toBe(200)
  const [before] = await client.readPoints(experimentKey, 'loss', 1)
  expect(before).toMatchObject({ metricValue: '0.25', step: 1 })

  await run('docker', ['stop', '--time', '60', container])
  const { stdout } = await run('docker', ['inspect', '--format', '{{.State.ExitCode}}', container])
  expect(stdout.trim()).toBe('0')
  await run('docker', ['start', container])

  const again = await openClient()
  expect(await again.readMetric(experimentKey, 'loss')).toEqual([before])
})
