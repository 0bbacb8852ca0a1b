import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { createClient } from '../../test/kit/http/client.ts'
import { expectLedger, runLoad } from '../../test/kit/ledger.ts'
import { given } from './given.ts'

/** The address stays the same: the environment sets SVC_PORT, which compose publishes. */
const client = createClient(given('SVC_REHEARSAL_URL'), { apiKey: given('SVC_API_KEY'), workspaceName: 'default' })
const run = promisify(execFile)

it('what was acknowledged before all containers are taken down is there when new ones come up', async () => {
  const experimentKey = await client.createExperiment({ projectName: 'rehearsal' })
  // Right after the last acknowledgement, when most rows still wait in the queue.
  const load = { client, experimentKey, writers: 8, batches: 10, pointsPerBatch: 100, onAcknowledged: () => undefined }
  const { ledger } = await runLoad(load)
  await run('docker', ['compose', '--profile', '*', 'down', '--timeout', '60'])
  const { stdout } = await run('docker', ['compose', 'ps', '--all', '--quiet'])
  expect(stdout).toBe('')
  await run('docker', ['compose', 'up', '--detach', '--no-build'])
  await expectLedger(client, experimentKey, ledger)
})
