import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { LoadReport } from './load-report.ts'
import type { LoadAnswer, LoadOrder } from './messages.ts'
import { runWhenIdle } from './run-when-idle.ts'

export type LoadProcess = {
  prepare(order: Exclude<LoadOrder, { kind: 'run' }>): Promise<void>
  run(seconds: number, pointsPerSecond?: number): Promise<LoadReport>
  close(): Promise<void>
}

/** Starts the process that generates the load. @param isElsewhere it stands for a machine of others: see `runWhenIdle` */
export function startLoadProcess({ isElsewhere = false } = {}): LoadProcess {
  const child = fork(fileURLToPath(new URL('./load-process.ts', import.meta.url)), {
    stdio: 'inherit',
    detached: isElsewhere,
  })
  if (isElsewhere) runWhenIdle(child.pid as number)
  const ended = new Promise((resolve) => child.once('exit', resolve))

  function ask(order: LoadOrder): Promise<LoadAnswer> {
    return new Promise((resolve, reject) => {
      const stop = () => reject(new Error('The load process ended.'))
      child.once('exit', stop)
      child.once('message', (answer: LoadAnswer) => {
        child.off('exit', stop)
        if (answer.kind === 'failed') reject(new Error(`The load process failed: ${answer.message}`))
        else resolve(answer)
      })
      child.send(order, (error) => error && reject(error))
    })
  }

  return {
    async prepare(order) {
      await ask(order)
    },
    async run(seconds, pointsPerSecond) {
      const answer = await ask({ kind: 'run', seconds, ...(pointsPerSecond !== undefined && { pointsPerSecond }) })
      if (answer.kind !== 'ran') throw new Error('The load process gave an unexpected answer.')
      return answer.report
    },
    async close() {
      child.kill('SIGKILL')
      await ended
    },
  }
}
