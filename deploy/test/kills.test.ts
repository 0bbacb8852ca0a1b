import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { aForm, createAssetClient } from '../../test/kit/clients/assets.ts'
import { eventually } from '../../test/kit/eventually.ts'
import { createClient } from '../../test/kit/http/client.ts'
import { expectLedger, runLoad } from '../../test/kit/ledger.ts'
import { given } from './given.ts'

/**
 * Kills the main process of each container of a running compose project under light load, then compares acknowledged with readable
 * rows. `rehearse` passes the project, the address and the docker host.
 */
const project = given('SVC_REHEARSAL_PROJECT')
const url = given('SVC_REHEARSAL_URL')
const user = { apiKey: given('SVC_API_KEY'), workspaceName: 'default' }

const load = { writers: 4, batches: 30, pointsPerBatch: 25 }
const killAfterPoints = (load.writers * load.batches * load.pointsPerBatch) / 4
const assetBytes = 3 * 1024 * 1024

const client = createClient(url, user)
const assets = createAssetClient({ url, apiKey: user.apiKey, client })
const run = promisify(execFile)

let keptExperiment: string
let keptAsset: { id: string; sha256: string }

beforeAll(async () => {
  keptExperiment = await client.createExperiment({ projectName: 'rehearsal' })
  const bytes = randomBytes(assetBytes)
  const answer = await assets.upload({ experimentKey: keptExperiment, fileName: 'weights.bin' }, aForm(bytes))
  expect(answer.status, answer.text).toBe(200)
  keptAsset = { id: answer.body.assetId as string, sha256: toSha256(bytes) }
})

describe.each(['ingest', 'worker', 'api', 'proxy', 'redis', 'clickhouse', 'postgres', 'objects'])('%s', (service) => {
  it('is killed under load and started again, and everything acknowledged is read back exactly', async () => {
    const experimentKey = await client.createExperiment({ projectName: 'rehearsal' })
    const before = await inspect(service)
    let killed: Promise<void> | undefined
    const { ledger, refusals } = await runLoad({
      ...load,
      client,
      experimentKey,
      onAcknowledged(points) {
        if (points >= killAfterPoints) killed ??= kill(before.pid)
      },
    })
    await killed

    const after = await eventually(async () => {
      const now = await inspect(service)
      if (now.pid === before.pid || now.health !== 'healthy') throw new Error(`${service} is ${now.health}`)
      return now
    }, 120_000)
    expect(after.restarts).toBeGreaterThan(before.restarts)
    await expectLedger(client, experimentKey, ledger)
    await eventually(expectKeptAsset)
    const told = [...refusals].map(([status, times]) => `${times} x ${status || 'no answer'}`).join(', ') || 'none'
    console.log(
      `${service}: ${[...ledger.values()].flat().length} points read back; attempts not acknowledged: ${told}`,
    )
  })
})

async function expectKeptAsset() {
  const { status, bytes } = await assets.read(keptExperiment, keptAsset.id)
  expect({ status, sha256: toSha256(bytes) }).toEqual({ status: 200, sha256: keptAsset.sha256 })
}

/** Not by "docker kill": after that Docker does not restart the container. */
async function kill(pid: number): Promise<void> {
  process.kill(pid, 'SIGKILL')
}

async function inspect(service: string): Promise<{ pid: number; restarts: number; health: string }> {
  const filters = [`label=com.docker.compose.project=${project}`, `label=com.docker.compose.service=${service}`]
  const { stdout: id } = await run('docker', ['ps', '-aq', ...filters.flatMap((it) => ['--filter', it])])
  const { stdout } = await run('docker', ['inspect', id.trim()])
  const [{ State: state, RestartCount: restarts }] = JSON.parse(stdout)
  return { pid: state.Pid, restarts, health: state.Health?.Status ?? state.Status }
}

function toSha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
