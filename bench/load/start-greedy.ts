import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { runWhenIdle } from './run-when-idle.ts'

type Loops = { loops: number; path: string }

/** Paths are below `/api/rest/v2/`. */
export type GreedyOrder = {
  url: string
  apiKey: string
  seconds: number
  reads: Loops
  exports: Loops
  streams: Loops
}

/** What was begun; `refused` are answers 429, `failed` all other errors. */
export type GreedyReport = Record<'reads' | 'exports' | 'streams' | 'refused' | 'failed', number>

/** Starts the process of the greedy tenant. */
export function startGreedy() {
  const child = fork(fileURLToPath(new URL('./greedy-process.ts', import.meta.url)), {
    stdio: 'inherit',
    detached: true,
  })
  runWhenIdle(child.pid as number)
  const ended = new Promise((resolve) => child.once('exit', resolve))
  return {
    run: (order: GreedyOrder) =>
      new Promise<GreedyReport>((resolve, reject) => {
        const fail = () => reject(new Error('The process of the greedy tenant ended.'))
        child.once('exit', fail)
        child.once('message', (report: GreedyReport) => {
          child.off('exit', fail)
          resolve(report)
        })
        child.send(order, (error) => error && reject(error))
      }),
    async close() {
      child.kill('SIGKILL')
      await ended
    },
  }
}
