import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastPath } from '../http/fast-path/fast-path.ts'

/** A request that a client has already sent arrives within this time. */
const silenceMsMax = 500

/**
 * Closes the connections of a stopping server without waiting for idle ones. After `server.close()` Node waits for the
 * keep-alive timeout (a minute and more) of connections that were busy or had not sent a request yet.
 *
 * Call this before the server listens, and `closeAll` after `server.close()`: it closes each busy connection after its
 * answer, and idle ones after a short delay.
 */
export function watchConnections(server: Server, fastPath: Pick<FastPath, 'isBusy'>): { closeAll(): void } {
  const connections = new Set<Socket>()
  const answers = new Set<ServerResponse>()
  let closing = false

  server.on('connection', (socket) => {
    connections.add(socket)
    socket.once('close', () => connections.delete(socket))
  })
  // Before the listener that answers, or it would miss a quick answer.
  server.prependListener('request', (_request, answer) => {
    answers.add(answer)
    answer.once('close', () => answers.delete(answer))
    if (closing) endAfter(answer)
  })
  return {
    closeAll() {
      closing = true
      for (const answer of answers) endAfter(answer)
      setTimeout(() => {
        const busy = new Set([...answers].map((it) => it.req.socket))
        for (const socket of connections) if (!busy.has(socket) && !fastPath.isBusy(socket)) socket.destroy()
      }, silenceMsMax)
    },
  }
}

function endAfter(answer: ServerResponse) {
  if (answer.headersSent) answer.once('finish', () => answer.req.socket.end())
  else answer.shouldKeepAlive = false
}
