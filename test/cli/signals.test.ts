import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { startRole } from '../kit/processes/svc.ts'
import { storesWith } from '../kit/service.ts'

it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  'a role that gets %s, and a copy of it while it drains, ends in order',
  async (signal) => {
    const role = await startRole('worker', storesWith('postgres'))
    try {
      role.kill(signal)
      // Apart, or the kernel would make one of them.
      await sleep(20)
      role.kill(signal)
      expect(await role.ended).toEqual({ code: 0, signal: null })
    } finally {
      role.kill('SIGKILL')
    }
  },
)
