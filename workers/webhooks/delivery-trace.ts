import type { Tracing } from '../../runtime/tracing.ts'
import { Undeliverable } from './failure.ts'
import type { Send } from './sender.ts'

/** Sends, and traces each attempt: a trace of its own, as the change it tells of may be hours old. */
export function traceDeliveries(tracing: Tracing, send: Send): Send {
  return async (message, stop) => {
    const span = tracing.start('deliver webhook', {
      kind: 'client',
      // No more of the address: what receivers have in theirs may be a secret.
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
