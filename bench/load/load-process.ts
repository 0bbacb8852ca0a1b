import { createHttpLoad } from './http-load.ts'
import type { LoadReport } from './load-report.ts'
import type { LoadAnswer, LoadOrder } from './messages.ts'
import { createRawLoad } from './raw-load.ts'

/** Generates the load, in another process than the measurement. Ends with its parent. */
let load: { run(seconds: number, pointsPerSecond?: number): Promise<LoadReport> } | undefined

process.on('message', (order: LoadOrder) => {
  execute(order).then(answer, (error: unknown) => answer({ kind: 'failed', message: String(error) }))
})
process.on('disconnect', () => process.exit())

async function execute(order: LoadOrder): Promise<LoadAnswer> {
  if (order.kind === 'run') {
    if (!load) throw new Error('nothing is prepared')
    return { kind: 'ran', report: await load.run(order.seconds, order.pointsPerSecond) }
  }
  load = order.kind === 'prepareHttp' ? createHttpLoad(order) : createRawLoad(order)
  return { kind: 'prepared' }
}

function answer(message: LoadAnswer) {
  process.send?.(message)
}
