import { setTimeout as sleep } from 'node:timers/promises'
import type { Answer } from '../../test/kit/http/answers.ts'
import { holdConnections } from '../../test/kit/http/held-connections.ts'
import type { Contender } from '../contenders/contender.ts'
import type { ServiceContender } from '../contenders/service.ts'

/** Enough time for all clients to connect. */
const settleMs = 1_500

/** The same service while `count` slow clients hold connections: they send a byte per second, or nothing. */
export function besideSlowClients(service: ServiceContender, apiKey: string, count: number): Contender {
  return {
    ...service,
    about: { ...service.about, scenario: `${service.about.scenario} beside ${count} slow` },
    async runRound(seconds) {
      const url = service.writeUrl
      // Their requests never complete, so the experiment need not exist.
      const place = { experimentKey: '0'.repeat(32), longRead: '/openapi.json' }
      const held = holdConnections({ url, apiKey, ...place, count, findError })
      try {
        await sleep(settleMs)
        return await service.runRound(seconds)
      } finally {
        const { errors } = await held.finish()
        for (const error of errors) service.errors[error] = (service.errors[error] ?? 0) + 1
      }
    },
  }
}

/** 503 is an expected answer of a server under load. */
function findError({ status }: Answer): string | undefined {
  return status >= 500 && status !== 503 ? `HTTP ${status}` : undefined
}
