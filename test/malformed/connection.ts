import type { Socket } from 'node:net'
import { type Answer, createAnswerReader, type Ending } from '../kit/http/answers.ts'
import { openSocket } from '../kit/http/socket.ts'
import type { Malformed } from './kinds.ts'

type Exchange = { answers: Answer[]; ending: Ending; rest: string }

/** Longer than any timeout of the server. */
const silenceMsMax = 180_000

/** One connection at a time, reused until the server closes it. */
export function createSharedConnection(url: string) {
  let socket: Socket | undefined

  return {
    /** Pipelines requests and returns the answers; there are fewer when the server closed the connection. */
    exchange(requests: Malformed[]): Promise<Exchange> {
      const used = socket && !socket.destroyed && socket.readable ? socket : openSocket(url)
      socket = used
      return new Promise((resolve) => {
        const answers: Answer[] = []
        const isHead = () => requests[answers.length]?.isHead ?? false
        const reader = createAnswerReader(isHead, (answer) => answers.push(answer))
        const settle = () => {
          used.off('data', read)
          used.off('close', settle)
          used.setTimeout(0, giveUp)
          resolve({ answers, ending: reader.ending(), rest: reader.rest() })
        }
        const giveUp = () => used.destroy()
        const read = (chunk: Buffer) => {
          reader.push(chunk)
          const isLast = /\r\nconnection: close\r\n/i.test(answers.at(-1)?.head ?? '')
          if (isLast || reader.ending() === 'torn') {
            used.destroy()
            socket = undefined
          } else if (answers.length === requests.length) settle()
        }
        used.on('data', read)
        used.once('close', settle)
        used.setTimeout(silenceMsMax, giveUp)
        used.cork()
        for (const { bytes } of requests) used.write(bytes)
        used.uncork()
      })
    },

    close() {
      socket?.destroy()
    },
  }
}

/** Sends a request over its own connection, ends it in the request's manner and returns all answers. */
export function sendAlone(url: string, { bytes, manner, isHead }: Malformed): Promise<Exchange & { isOver: boolean }> {
  return new Promise((resolve) => {
    const answers: Answer[] = []
    const reader = createAnswerReader(
      () => isHead,
      (answer) => answers.push(answer),
    )
    const socket = openSocket(url)
    let isOver = true
    socket.setTimeout(silenceMsMax, () => {
      isOver = false
      socket.destroy()
    })
    socket.on('data', (chunk) => {
      if (manner === 'abandon') socket.resetAndDestroy()
      else reader.push(chunk)
    })
    socket.once('close', () => resolve({ answers, ending: reader.ending(), rest: reader.rest(), isOver }))
    if (manner === 'finish') socket.end(bytes)
    else if (manner === 'reset') socket.write(bytes, () => socket.resetAndDestroy())
    else socket.write(bytes)
  })
}
