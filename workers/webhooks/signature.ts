import { createHmac } from 'node:crypto'

type Message = { id: string; body: string; nowMs: number }

/**
 * The headers of a delivery by Standard Webhooks: its id, the time, and a signature for each secret. A receiver that knows
 * one of the secrets can verify it.
 *
 * @param secrets `whsec_` and the key in base64
 */
export function signMessage({ id, body, nowMs }: Message, secrets: string[]): Record<string, string> {
  const seconds = String(Math.floor(nowMs / 1000))
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
    return `v1,${createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64')}`
  })
  return { 'webhook-id': id, 'webhook-timestamp': seconds, 'webhook-signature': signatures.join(' ') }
}
