import type { Socket } from 'node:net'
import { type Answer, createAnswerReader } from '../kit/http/answers.ts'
import { openSocket } from '../kit/http/socket.ts'

/** How long the other side may be silent before we end a message for which it expects more; 0 waits for the answers. */
const silenceMsDefault = 2_000

/**
 * Sends bytes on a connection of their own and reads all answers until it closes. We end our side only after `count` answers, or
 * silence: a request that follows another one is not read from a connection that was ended with it.
 */
export function exchange(
  url: string,
  bytes: Buffer,
  { count = 1, isHead = false, silenceMs = silenceMsDefault } = {},
): Promise<Answer[]> {
  return new Promise((resolve) => {
    const answers: Answer[] = []
    const socket: Socket = openSocket(url)
    const reader = createAnswerReader(
      () => isHead && answers.length === 0,
      (answer) => answers.push(answer),
    )
    socket.setTimeout(silenceMs, () => socket.end())
    socket.on('data', (chunk) => {
      reader.push(chunk)
      if (answers.length >= count) socket.end()
    })
    socket.once('close', () => resolve(answers))
    socket.write(bytes)
  })
}
