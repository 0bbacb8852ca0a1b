import { Undeliverable } from '../../http/outgoing/failure.ts'
import type { Tracing } from '../../runtime/tracing.ts'
import type { Send } from './sender.ts'

/** Sends with a trace for each attempt. It is not part of the change's trace, which may be hours old. */
export function traceDeliveries(tracing: Tracing, send: Send): Send {
  return async (message, stop) => {
    const span = tracing.start('deliver webhook', {
      kind: 'client',
      // Only the host: the rest of the URL may hold a secret.
      attributes: { 'http.request.method': 'POST', 'server.address': new URL(message.url).hostname },
    })
    try {
      const answer = await send(message, stop)
      const { status } = answer
      span?.end({
        ...(status >= 400 && { error: String(status) }),
        attributes: { 'http.response.status_code': status },
      })
      return answer
    } catch (error) {
      span?.end({ error: error instanceof Undeliverable ? error.failure : error })
      throw error
    }
  }
}
