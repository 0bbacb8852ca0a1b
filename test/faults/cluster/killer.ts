import { setTimeout as sleep } from 'node:timers/promises'
import type { Role } from '../../../cli/service.ts'
import type { SupervisedProcess } from '../../kit/processes/supervised-process.ts'
import type { StoreKind } from '../../kit/stores/supervised-stores.ts'
import { drawDeeds, type Strike } from './plan.ts'

type Victim = SupervisedProcess<Role | StoreKind>

type Settings = {
  seed: number
  kills: number
  victims: Victim[]
  /** No kill starts after this `performance.now()`. */
  deadline: number
  signal: AbortSignal
}

type Killed = {
  byKind: Partial<Record<Victim['kind'], number>>
  inAll: number
  twoAtOnce: number
  stops: number
  /** Workers that continued after another worker took over their jobs. */
  hungWorkers: number
}

/** The job lock of store/queue: after this silence another worker takes over. */
const lockMs = 6_000

/** Kills processes by the plan of this seed. When `run` resolves, everything is running again. */
export function createKiller({ seed, kills, victims, deadline, signal }: Settings) {
  const killed: Killed = { byKind: {}, inAll: 0, twoAtOnce: 0, stops: 0, hungWorkers: 0 }
  const underWay = new Map<string, Promise<void>>()

  function kill(victim: Victim) {
    if (killed.inAll >= kills || !victim.signal('SIGKILL')) return
    killed.byKind[victim.kind] = (killed.byKind[victim.kind] ?? 0) + 1
    killed.inAll++
  }

  async function strike({ how, forMs }: Strike, victim: Victim) {
    if (how === 'stop, then continue' || how === 'stop, then kill') {
      if (!victim.signal('SIGSTOP')) return
      killed.stops++
      await sleep(forMs)
      if (how === 'stop, then kill') kill(victim)
      else if (victim.kind === 'worker' && forMs > lockMs) killed.hungWorkers++
      victim.signal('SIGCONT')
      return
    }
    kill(victim)
    if (how === 'kill') return
    await sleep(forMs)
    kill(victim)
  }

  return {
    killed,
    async run() {
      const byKind = Map.groupBy(victims, (it) => it.kind)
      const names = new Map([...byKind].map(([kind, processes]) => [kind, processes.map((it) => it.name)]))
      for (const { afterMs, strikes } of drawDeeds(seed, names)) {
        await sleep(afterMs, undefined, { signal }).catch(() => undefined)
        if (signal.aborted || killed.inAll >= kills || performance.now() > deadline) break
        const free = strikes.filter((it) => !underWay.has(it.victim))
        if (free.length > 1) killed.twoAtOnce++
        for (const it of free) {
          const work = strike(it, victims.find(({ name }) => name === it.victim) as Victim)
          underWay.set(
            it.victim,
            work.finally(() => underWay.delete(it.victim)),
          )
        }
      }
      await Promise.all(underWay.values())
      await Promise.all(victims.map((it) => it.ready()))
    },
  }
}
