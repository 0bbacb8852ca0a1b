import { setTimeout as sleep } from 'node:timers/promises'
import { holdConnections } from '../../test/kit/http/held-connections.ts'
import type { Contender } from '../contenders/contender.ts'
import type { ServiceContender } from '../contenders/service.ts'

/** Long enough for all of them to be connected. */
const settleMs = 1_500

/** The same service, while so many clients hold connections to it and send a byte a second, or nothing. */
export function besideSlowClients(service: ServiceContender, apiKey: string, count: number): Contender {
  return {
    ...service,
    about: { ...service.about, scenario: `${service.about.scenario} beside ${count} slow` },
    async runRound(seconds) {
      const url = service.writeUrl
      // None of them gets as far as an experiment, or a long read.
      const held = holdConnections({ url, apiKey, experimentKey: '0'.repeat(32), longRead: '/openapi.json', count })
      try {
        await sleep(settleMs)
        return await service.runRound(seconds)
      } finally {
        const { faults } = await held.finish()
        for (const fault of faults) service.faults[fault] = (service.faults[fault] ?? 0) + 1
      }
    },
  }
}
