import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastPath } from '../http/fast-path/fast-path.ts'

/** What a client has sent already gets here within this time. */
const silenceMsMax = 500

/**
 * Lets a server end as soon as what was begun is answered. Node's own `close` waits for connections that were busy when
 * it was called, and for those that have not asked anything yet, as long as idle ones may be kept: a minute and more.
 *
 * To be called before the server listens; `letGo` after `close` was called. It ends every connection right after its
 * answer, and a little later those that asked nothing.
 */
export function watchConnections(server: Server, fastPath: Pick<FastPath, 'isBusy'>): { letGo(): void } {
  const connections = new Set<Socket>()
  const answers = new Set<ServerResponse>()
  let lettingGo = false

  server.on('connection', (socket) => {
    connections.add(socket)
    socket.once('close', () => connections.delete(socket))
  })
  // Before the listener that answers, or else a quick answer would be missed.
  server.prependListener('request', (_request, answer) => {
    answers.add(answer)
    answer.once('close', () => answers.delete(answer))
    if (lettingGo) endAfter(answer)
  })
  return {
    letGo() {
      lettingGo = true
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
