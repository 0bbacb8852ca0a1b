import { connect, type Socket } from 'node:net'

export type Answer = { status: number; body: string; isLast?: boolean }

export type WriteRequest = { path: string; apiKey: string; idempotencyKey: string; body: string }

/** One connection of a client, opened on demand, with one request at a time. */
export type Connection = {
  /** Resolves with the answer. Rejects when none comes; whether the request was stored is then unknown. */
  post(request: WriteRequest): Promise<Answer>
  close(): void
}

/** A stopped process (SIGSTOP) keeps its connections open and never answers. */
const answerMsMax = 15_000

/**
 * A raw socket: Node's own HTTP client needs as much CPU as the server, which on a small machine would halve the load.
 */
export function createConnection(url: string, { apiPath = '/api/rest/v2' } = {}): Connection {
  const { hostname, port, host } = new URL(url)
  let socket: Socket | undefined

  function open(): Socket {
    const opened = connect({ host: hostname, port: Number(port), noDelay: true })
    opened.on('error', () => undefined)
    opened.on('close', () => {
      if (socket === opened) socket = undefined
    })
    return opened
  }

  return {
    post({ path, apiKey, idempotencyKey, body }) {
      socket ??= open()
      const used = socket
      const { promise, resolve, reject } = Promise.withResolvers<Answer>()
      const received: Buffer[] = []
      const onData = (chunk: Buffer) => {
        received.push(chunk)
        try {
          const answer = readAnswer(received)
          if (!answer) return
          // The server closes this connection: a request sent on it now would be lost.
          if (answer.isLast && socket === used) socket = undefined
          resolve(answer)
        } catch (error) {
          used.destroy(error as Error)
        }
      }
      const onError = (error: Error) => reject(error)
      const onClose = () => reject(new Error('the connection was closed'))
      const timer = setTimeout(() => used.destroy(new Error('no answer in time')), answerMsMax)
      used.on('data', onData).on('error', onError).on('close', onClose)
      used.write(
        `POST ${apiPath}${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: ${apiKey}\r\n` +
          `idempotency-key: ${idempotencyKey}\r\ncontent-type: application/json\r\n` +
          `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      )
      return promise.finally(() => {
        clearTimeout(timer)
        used.off('data', onData).off('error', onError).off('close', onClose)
      })
    },
    close() {
      socket?.destroy()
    },
  }
}

/** Undefined while the answer is incomplete. */
function readAnswer(received: Buffer[]): Answer | undefined {
  const text = (received.length === 1 ? (received[0] as Buffer) : Buffer.concat(received)).toString('latin1')
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd === -1) return undefined
  const length = Number(/^content-length: *(\d+)/im.exec(text.slice(0, headEnd))?.[1])
  const body = text.slice(headEnd + 4)
  const isLast = /^connection: *close$/im.test(text.slice(0, headEnd))
  if (Number.isNaN(length)) throw new Error(`An answer without Content-Length:\n${text}`)
  return body.length < length ? undefined : { status: Number(text.slice(9, 12)), body, isLast }
}
