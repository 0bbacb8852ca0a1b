import { setTimeout as sleep } from 'node:timers/promises'
import type { Experiment } from '../cluster/cluster.ts'

type Settings = { urls: string[]; apiKey: string; experiments: Experiment[] }

const pauseMsMax = 200
/** What `Retry-After` of such an answer says. */
const repeatMs = 2_000

/**
 * Reads experiments all the time: one reader per URL, over keep-alive connections. A read that is answered that a
 * store is away is sent again once, as clients do.
 */
export function runReaders({ urls, apiKey, experiments }: Settings) {
  let isOver = false
  let answered = 0
  let repeated = 0
  const failures: Record<string, number> = {}
  const running = urls.map(async (url) => {
    for (let count = 0; !isOver; count++) {
      const { key } = experiments[count % experiments.length] as Experiment
      const path = ['metadata', 'metrics/summary', 'output'][count % 3]
      const address = `${url}/api/rest/v2/experiment/${path}?experimentKey=${key}`
      let reason = await read(address)
      if (reason?.startsWith('HTTP 503') && reason.includes('A store of the service does not answer.')) {
        repeated++
        await sleep(repeatMs)
        reason = await read(address)
      }
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

  const report = () => ({ answered, repeated, failures })
  return {
    report,
    async finish() {
      isOver = true
      await Promise.all(running)
      return report()
    },
  }
}
