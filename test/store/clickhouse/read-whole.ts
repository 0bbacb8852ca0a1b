import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'

/** What a read answers, be it a text or the stream of one. */
export const readWhole = async (answer: string | Readable): Promise<string> =>
  typeof answer === 'string' ? answer : await text(answer)
