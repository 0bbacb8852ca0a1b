import { afterEach, describe, expect, it } from 'vitest'
import type { Role } from '../../cli/service.ts'
import { createClosers } from '../../runtime/closers.ts'
import { aPoint } from '../kit/builders.ts'
import { createRegistryClient } from '../kit/clients/registry.ts'
import { createWebhookClient } from '../kit/clients/webhooks.ts'
import { eventually } from '../kit/eventually.ts'
import { queuesInForm } from '../kit/form.ts'
import { createCertificate, openReceiver } from '../kit/http/receiver.ts'
import { startRole } from '../kit/processes/svc.ts'
import { openOwnStores, openTestService, testMasterKey, uniqueName } from '../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

describe.each(queuesInForm())('workers apart from webhook-workers, with the queue in %s', (queue) => {
  it('do together what one worker does alone, and neither does the work of the other', async () => {
    const stores = await openOwnStores(queue)
    const certificate = await createCertificate()
    const settings = {
      ...certificate.settings,
      SVC_MASTER_KEY: testMasterKey,
      SVC_QUEUE_PREFIX: uniqueName('queue'),
    }
    const start = async (role: Role, ...options: string[]) => {
      const running = await startRole(role, stores, settings, options)
      closers.push(async () => {
        running.kill('SIGKILL')
        await running.ended
      })
      return running
    }
    const service = await openTestService({ stores, roles: new Set(['ingest', 'api']), settings })
    closers.push(service.close)
    const { client } = service
    const webhooks = createWebhookClient(service)
    const registry = createRegistryClient(service)
    const receiver = await openReceiver(certificate)
    closers.push(receiver.close)
    await webhooks.add({ url: receiver.url })
    const { registryModelItemId: modelItemId } = await registry.aModel()
    await registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'production' })
    const experimentKey = await client.createExperiment()
    await client.post('/write/experiment/metric', { experimentKey, ...aPoint() })

    const worker = await start('worker', '--without-webhooks')
    expect(await client.readPoints(experimentKey, 'loss', 1)).toHaveLength(1)
    expect(receiver.received).toEqual([])
    const webhookWorker = await start('webhook-worker')
    await eventually(() => expect(receiver.received).toHaveLength(1))

    const figuresOf = async ({ url }: { url: string }) => await (await fetch(`${url}/metrics`)).text()
    expect(await figuresOf(worker)).toContain('svc_rows_stored_total')
    expect(await figuresOf(worker)).not.toContain('svc_webhook_deliveries')
    // The attempt is counted once it is written down, after the receiver has answered.
    await eventually(async () => {
      expect(await figuresOf(webhookWorker)).toContain('svc_webhook_deliveries_total{outcome="delivered"} 1')
    })
    expect(await figuresOf(webhookWorker)).not.toContain('svc_rows_stored_total')
  })
})
