import { Writable } from 'node:stream'
import { pino } from 'pino'
import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { createRegistryClient } from '../kit/clients/registry.ts'
import { createWebhookClient } from '../kit/clients/webhooks.ts'
import { expectNowhere, openSearchableStores } from '../kit/dump.ts'
import { eventually } from '../kit/eventually.ts'
import { createCertificate, openReceiver } from '../kit/http/receiver.ts'
import { availableQueues, openTestService } from '../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

it.each(availableQueues())(
  'no value of a header and no signing secret is in a store, a line of the log or an answer, whatever becomes of a delivery, with the queue in %s',
  async (queue) => {
    const lines: string[] = []
    const log = pino(
      { level: 'trace' },
      new Writable({
        write(chunk, _encoding, done) {
          lines.push(String(chunk))
          done()
        },
      }),
    )
    const { stores, database, dump } = await openSearchableStores(queue, closers)
    const certificate = await createCertificate()
    const service = await openTestService({ stores, log, settings: certificate.settings })
    closers.push(service.close)
    const registry = createRegistryClient(service)
    const webhooks = createWebhookClient(service)
    const clear: Record<string, string> = {
      'a token': 'Bearer the-clear-text-of-a-token',
      'a header': 'the-clear-text-of-another-header',
      'a refused header': 'the-clear-text-of-a-refused-header',
      'a failed header': 'the-clear-text-of-a-failed-header',
    }
    const header = { Authorization: clear['a token'], 'X-Other': clear['a header'] }

    const [good, failing] = [
      await openReceiver(certificate),
      await openReceiver(certificate, ({ headers }) => ({ status: 500, body: JSON.stringify(headers) })),
    ]
    for (const { close } of [good, failing]) closers.push(close)
    // The last one is trusted by nobody, so that the connection fails.
    const strange = await openReceiver(await createCertificate())
    closers.push(strange.close)
    await webhooks.merge([good, failing, strange].map(({ url }) => ({ url, header })))
    for (const { url } of [good, good, failing]) {
      const { body } = await webhooks.post('signing-secret', { url })
      clear[`signing secret ${Object.keys(clear).length}`] = body.signingSecret as string
    }
    const { registryModelItemId: modelItemId } = await registry.aModel()
    await registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'a' })
    for (const { url } of [good, failing, strange]) {
      await webhooks.deliveriesOnce(url, ([it]) => (it?.attempts.length ?? 0) > 0)
    }
    expect(good.received[0]?.headers).toMatchObject({ authorization: clear['a token'], 'x-other': clear['a header'] })

    const refused = { 'X-A': clear['a refused header'], 'x-a': 'b' }
    expect((await webhooks.merge([{ url: good.url, header: refused }])).status).toBe(400)
    await database.row(`ALTER TABLE webhook_receivers ADD CONSTRAINT refused CHECK (name <> 'x') NOT VALID`)
    const failed = { name: 'x', url: good.url, header: { 'X-A': clear['a failed header'] } }
    expect((await webhooks.merge([failed])).status).toBe(500)
    await database.row('ALTER TABLE webhook_receivers DROP CONSTRAINT refused')
    // A row that was changed does not open: that is told without what is in it.
    await database.row('UPDATE webhook_receivers SET headers = signing_secret WHERE url = $1', [good.url])
    await registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'b' })
    const [, unreadable] = await webhooks.deliveriesOnce(good.url, ([, it]) => (it?.attempts.length ?? 0) > 0)
    expect(unreadable?.attempts[0]?.failure).toBe('secret unreadable')
    expect(good.received).toHaveLength(1)

    const said = await eventually(() => {
      const text = lines.join('')
      if (!text.includes('does not open')) throw new Error('not yet logged')
      return text
    })
    const places: Record<string, string> = {
      ...(await dump()),
      'the log': said,
      'an answer': (await webhooks.read()).text + (await webhooks.log()).text,
    }
    expect(places.Postgres).toContain('X-Other')
    if (queue === 'redis') expect(places.Redis).toContain('webhooks')
    expect(said).toContain('a request failed')
    expect(Object.keys(clear)).toHaveLength(7)
    expectNowhere(clear, places)
    const withoutPrefix = Object.entries(clear).map(([what, text]) => [what, text.replace(/^whsec_/, '')])
    expectNowhere(Object.fromEntries(withoutPrefix), places)
  },
)
