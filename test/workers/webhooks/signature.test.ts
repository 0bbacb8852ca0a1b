import { Webhook } from 'standardwebhooks'
import { describe, expect, it } from 'vitest'
import { signMessage } from '../../../workers/webhooks/signature.ts'

const secrets = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)].map((it) => `whsec_${it.toString('base64')}`)
const [first, second] = secrets as [string, string]
const body = '{"event":"MODEL_UPDATED","name":"ä€𝄞\\n"}'
const message = { id: 'msg_1', body, nowMs: Date.now() }

describe('a signature, judged by the package that the standard names', () => {
  it('verifies only with the same secret, id, time and bytes', () => {
    const headers = signMessage(message, [first])

    expect(new Webhook(first).verify(body, headers)).toEqual(JSON.parse(body))
    expect(() => new Webhook(second).verify(body, headers)).toThrow()
    expect(() => new Webhook(first).verify(`${body} `, headers)).toThrow()
    expect(() => new Webhook(first).verify(body, { ...headers, 'webhook-id': 'msg_2' })).toThrow()
    const later = String(Number(headers['webhook-timestamp']) + 1)
    expect(() => new Webhook(first).verify(body, { ...headers, 'webhook-timestamp': later })).toThrow()
  })

  it('verifies with the old and the new secret during a rotation', () => {
    const headers = signMessage(message, [first, second])

    expect(new Webhook(first).verify(body, headers)).toEqual(JSON.parse(body))
    expect(new Webhook(second).verify(body, headers)).toEqual(JSON.parse(body))
  })
})
