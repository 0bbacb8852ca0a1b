import { expect, it } from 'vitest'
import { Undeliverable } from '../../../http/outgoing/failure.ts'
import type { Tracing } from '../../../runtime/tracing.ts'
import { traceDeliveries } from '../../../workers/webhooks/delivery-trace.ts'
import type { Send } from '../../../workers/webhooks/sender.ts'

/** Notes what becomes of spans. */
function openNotes() {
  const spans: { name: string; attributes: unknown; outcome?: unknown }[] = []
  const tracing: Tracing = {
    start(name, { attributes }) {
      const span: (typeof spans)[number] = { name, attributes }
      spans.push(span)
      return {
        traceparent: '',
        link: () => undefined,
        end(outcome) {
          span.outcome = outcome
        },
      }
    },
    within: (_span, work) => work(),
    current: () => undefined,
  }
  return { spans, tracing }
}

const message = {
  url: 'https://hooks.example.com:8443/services/T0/secret-token?key=also-secret',
  headers: { authorization: 'very secret' },
  body: '{"private": true}',
}
const never = new AbortController().signal

it('each attempt of a delivery is a span with the host and answer of the receiver, without secrets', async () => {
  const { spans, tracing } = openNotes()
  const send: Send = async () => ({ status: 204, retryAfter: undefined })

  expect(await traceDeliveries(tracing, send)(message, never)).toEqual({ status: 204, retryAfter: undefined })

  expect(spans).toEqual([
    {
      name: 'deliver webhook',
      attributes: { 'http.request.method': 'POST', 'server.address': 'hooks.example.com' },
      outcome: { attributes: { 'http.response.status_code': 204 } },
    },
  ])
  expect(JSON.stringify(spans)).not.toMatch(/secret|private|services/)
})

it('a failed attempt marks its span as failed and keeps its error', async () => {
  const { spans, tracing } = openNotes()
  const fault = new Undeliverable('no answer in time')

  const refused: Send = async () => ({ status: 503, retryAfter: '5' })
  await traceDeliveries(tracing, refused)(message, never)
  const failing: Send = () => Promise.reject(fault)
  await expect(traceDeliveries(tracing, failing)(message, never)).rejects.toBe(fault)

  expect(spans.map((it) => it.outcome)).toEqual([
    { error: '503', attributes: { 'http.response.status_code': 503 } },
    { error: 'no answer in time' },
  ])
})
