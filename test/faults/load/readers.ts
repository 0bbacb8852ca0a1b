import { setTimeout as sleep } from 'node:timers/promises'
import type { Experiment } from '../cluster/cluster.ts'

type Settings = { urls: string[]; apiKey: string; experiments: Experiment[] }

const pauseMsMax = 200

/** Reads experiments all the time: one reader per URL, over keep-alive connections. */
export function runReaders({ urls, apiKey, experiments }: Settings) {
  let isOver = false
  let answered = 0
  const failures: Record<string, number> = {}
  const running = urls.map(async (url) => {
    for (let count = 0; !isOver; count++) {
      const { key } = experiments[count % experiments.length] as Experiment
      const path = ['metadata', 'metrics/summary', 'output'][count % 3]
      const reason = await read(`${url}/api/rest/v2/experiment/${path}?experimentKey=${key}`)
      if (reason === undefined) answered++
      else failures[reason] = (failures[reason] ?? 0) + 1
      await sleep(Math.random() * pauseMsMax)
    }
  })

  async function read(address: string): Promise<string | undefined> {
    try {
      const answer = await fetch(address, { headers: { authorization: apiKey } })
      const text = await answer.text()
      return answer.status === 200 ? undefined : `HTTP ${answer.status}: ${text.slice(0, 300)}`
    } catch (error) {
      const { message, cause } = error as Error & { cause?: { code?: string } }
      return cause?.code ?? message
    }
  }

  const report = () => ({ answered, failures })
  return {
    report,
    async finish() {
      isOver = true
      await Promise.all(running)
      return report()
    },
  }
}
