import type { Ingredients } from './kinds.ts'
import { type SendReport, type Share, sendMalformed } from './send.ts'

/** What a run and its sender processes say to each other. */
export type SenderOrder = { url: string; ingredients: Ingredients; share: Share }
export type SenderMessage =
  | { kind: 'sent'; count: number }
  | { kind: 'done'; report: SendReport }
  | { kind: 'failed'; message: string }

const tellEvery = 1_000

/** A process that sends a share of the requests, apart from the one that watches. It ends with its parent. */
process.once('message', ({ url, ingredients, share }: SenderOrder) => {
  let untold = 0
  const onSent = (count: number) => {
    untold += count
    if (untold < tellEvery) return
    tell({ kind: 'sent', count: untold })
    untold = 0
  }
  sendMalformed({ url, ingredients, share, onSent }).then(
    (report) => tell({ kind: 'done', report }),
    (error: unknown) => tell({ kind: 'failed', message: String(error) }),
  )
})
process.on('disconnect', () => process.exit())

function tell(message: SenderMessage) {
  process.send?.(message)
}
