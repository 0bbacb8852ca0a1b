import { afterEach, describe, expect, it, vi } from 'vitest'
import type { GivenLimits, TenantLimits } from '../../store/limits.ts'
import { createTenants, type QueryTurn } from '../../throttle/tenants.ts'
import { Throttled } from '../../throttle/throttle.ts'

type Options = { workspace?: GivenLimits; organization?: GivenLimits; defaults?: TenantLimits; queryWaitMsMax?: number }

function openTenants({
  workspace = {},
  organization = {},
  defaults = { workspace: {}, organization: {} },
  ...others
}: Options) {
  const refused: string[] = []
  const tenants = createTenants({
    find: async ({ workspaceName }) => ({ workspace: workspaceName === 'own' ? workspace : {}, organization }),
    defaults,
    ...others,
    onRefused: (limit) => refused.push(limit),
    onError: (error) => {
      throw error
    },
  })
  /** Runs as a request that is about a workspace. */
  const as = <T>(workspaceName: string, work: () => T, userId = 'user', signal?: AbortSignal) =>
    tenants.within({ organizationId: 'organization', userId, ...(signal && { signal }) }, () => {
      tenants.note(workspaceName)
      return work()
    })
  return { tenants, refused, as }
}

/** A query that runs until it is told to end. */
function aQuery() {
  const { promise, resolve } = Promise.withResolvers<void>()
  const priorities: number[] = []
  return {
    priorities,
    end: resolve,
    run: async ({ priority }: QueryTurn) => {
      priorities.push(priority)
      await promise
    },
  }
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('queries at once', () => {
  it('wait for their turn in the lane of their workspace, in order, and those of another do not', async () => {
    const { tenants, as } = openTenants({ defaults: { workspace: { queriesMax: 2 }, organization: {} } })
    const greedy = Array.from({ length: 5 }, aQuery)
    const running = greedy.map((it) => as('own', () => tenants.query(it.run)))
    const quiet = aQuery()
    const other = as('other', () => tenants.query(quiet.run))
    await settled()
    expect(greedy.map((it) => it.priorities)).toEqual([[1], [2], [], [], []])
    expect(quiet.priorities).toEqual([1])
    expect(tenants.queriesWaiting()).toBe(3)
    expect(tenants.inUse({ organizationId: 'organization', userId: null, workspaceName: 'own' }, 'queriesMax')).toBe(5)

    greedy[1]?.end()
    await running[1]
    await settled()
    expect(greedy.map((it) => it.priorities.length)).toEqual([1, 1, 1, 0, 0])
    for (const it of [...greedy, quiet]) it.end()
    await Promise.all([...running, other])
    expect(greedy.every((it) => it.priorities.length === 1)).toBe(true)
    expect(tenants.queriesWaiting()).toBe(0)
    expect(tenants.inUse({ organizationId: 'organization', userId: null, workspaceName: 'own' }, 'queriesMax')).toBe(0)
  })

  it('a query that fails gives its place to the next', async () => {
    const { tenants, as } = openTenants({ workspace: { queriesMax: 1 } })
    const failing = as('own', () => tenants.query(() => Promise.reject(new Error('broken'))))
    const next = as('own', () => tenants.query(async () => 'done'))
    await expect(failing).rejects.toThrow('broken')
    expect(await next).toBe('done')
  })

  it('of an organization are those of all its workspaces', async () => {
    const { tenants, as } = openTenants({ organization: { queriesMax: 1 } })
    const first = aQuery()
    const second = aQuery()
    const running = [as('own', () => tenants.query(first.run)), as('other', () => tenants.query(second.run))]
    await settled()
    expect(second.priorities).toEqual([])
    first.end()
    second.end()
    await Promise.all(running)
    expect(second.priorities).toEqual([1])
  })

  it('too many that wait are refused with the limit and what to do', async () => {
    const { tenants, refused, as } = openTenants({ workspace: { queriesMax: 1 } })
    const first = aQuery()
    const running = Array.from({ length: 201 }, () => as('own', () => tenants.query(first.run)))
    await settled()
    const error = await as('own', () => tenants.query(first.run)).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(Throttled)
    expect((error as Throttled).message).toBe(
      'The workspace "own" has 1 queries at once, the most that it may have in one process (the limit queriesMax): wait until one ' +
        'has ended, or ask an admin for more.',
    )
    expect((error as Throttled).headers).toEqual({ 'retry-after': '2' })
    expect(refused).toEqual(['queriesMax'])
    first.end()
    await Promise.all(running)
  })

  it('one that waits for too long is refused, and leaves its lane', async () => {
    const { tenants, refused, as } = openTenants({ workspace: { queriesMax: 1 }, queryWaitMsMax: 20 })
    const running = aQuery()
    const first = as('own', () => tenants.query(running.run))
    const second = aQuery()
    await expect(as('own', () => tenants.query(second.run))).rejects.toThrow(
      new Throttled(
        'The workspace "own" has 1 queries at once, the most that it may have in one process (the limit queriesMax): wait until ' +
          'one has ended, or ask an admin for more.',
        { headers: { 'retry-after': '2' }, holdMs: 0 },
      ),
    )
    expect(refused).toEqual(['queriesMax'])
    expect(tenants.queriesWaiting()).toBe(0)
    running.end()
    await first
    expect(second.priorities).toEqual([])
  })

  it('one whose client leaves never runs, and those behind it move up', async () => {
    const { tenants, refused, as } = openTenants({ workspace: { queriesMax: 1 } })
    const [running, left, next, late] = [aQuery(), aQuery(), aQuery(), aQuery()]
    const client = new AbortController()
    const first = as('own', () => tenants.query(running.run))
    const second = as('own', () => tenants.query(left.run), 'user', client.signal)
    const third = as('own', () => tenants.query(next.run))
    await settled()
    expect(tenants.queriesWaiting()).toBe(2)
    client.abort()
    await expect(second).rejects.toThrow('aborted')
    await expect(as('own', () => tenants.query(late.run), 'user', client.signal)).rejects.toThrow('aborted')
    expect(tenants.queriesWaiting()).toBe(1)
    for (const it of [running, next]) it.end()
    await Promise.all([first, third])
    expect([left.priorities.length, next.priorities.length, late.priorities.length]).toEqual([0, 1, 0])
    expect(refused).toEqual([])
  })

  it('one that others wait for too goes on when its client leaves', async () => {
    const { tenants, as } = openTenants({ workspace: { queriesMax: 1 } })
    const client = new AbortController()
    client.abort()
    const seen = await as(
      'own',
      () => tenants.shared(() => tenants.query(async ({ signal }) => signal)),
      'user',
      client.signal,
    )
    expect(seen).toBeUndefined()
  })

  it('of no tenant run at once, also when a request began them', async () => {
    const { tenants, as } = openTenants({ workspace: { queriesMax: 1 } })
    const priorities: number[] = []
    const run = async ({ priority }: QueryTurn) => void priorities.push(priority)
    await tenants.query(run)
    await as('own', () => tenants.outside(() => tenants.query(run)))
    expect(priorities).toEqual([0, 0])
  })

  it('of a request without a workspace stand in the lane of its user', async () => {
    const { tenants } = openTenants({ defaults: { workspace: { queriesMax: 1 }, organization: {} } })
    const first = aQuery()
    const within = (userId: string, run: (turn: QueryTurn) => Promise<unknown>) =>
      tenants.within({ organizationId: 'organization', userId }, () => tenants.query(run))
    const running = [within('one', first.run), within('one', first.run)]
    await within('another', async () => undefined)
    expect(tenants.queriesWaiting()).toBe(1)
    first.end()
    await Promise.all(running)
  })
})

describe('heavy queries', () => {
  afterEach(() => void vi.useRealTimers())

  /** A workspace that has kept so many queries running for a while: they end one by one, and others begin. */
  async function openGreedy(cores: number, atOnce = 8) {
    vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
    const { tenants, as } = openTenants({ defaults: { workspace: { queriesMax: 8 }, organization: {} } })
    tenants.shareCores(cores)
    const running: string[] = []
    const heavy: string[] = []
    const ends: (() => void)[] = []
    const begin = (workspaceName: string) =>
      as(workspaceName, () =>
        tenants.query(async ({ isHeavy }) => {
          running.push(workspaceName)
          if (isHeavy) heavy.push(workspaceName)
          await new Promise<void>((resolve) => ends.push(resolve))
        }),
      )
    const all = Array.from({ length: atOnce }, () => begin('greedy'))
    await settled()
    vi.advanceTimersByTime(5_000)
    /** Ends those that began first. The place of one that took no time is free at once. */
    async function end(count: number) {
      for (const end of ends.splice(0, count)) end()
      await settled()
      vi.advanceTimersByTime(0)
      await settled()
    }
    return {
      tenants,
      as,
      running,
      heavy,
      begin: (workspaceName: string, count = 1) =>
        void all.push(...Array.from({ length: count }, () => begin(workspaceName))),
      end,
      async close() {
        while (ends.length > 0) await end(ends.length)
        await Promise.all(all)
      },
    }
  }

  it('leave half of the cores to other tenants that have queries too', async () => {
    const { begin, end, running, heavy, close } = await openGreedy(4)
    begin('quiet')
    await settled()
    expect(heavy).toEqual([])
    begin('greedy', 8)
    await end(8)
    expect(heavy).toEqual(['greedy', 'greedy'])
    begin('quiet')
    await settled()
    expect(running.filter((it) => it === 'quiet')).toHaveLength(2)
    // More than two at once are heavy in any lane.
    begin('quiet')
    await settled()
    expect(running.filter((it) => it === 'quiet')).toHaveLength(2)
    await close()
    expect(running.filter((it) => it === 'greedy')).toHaveLength(16)
  })

  it.each([
    [40, 0, 2],
    [40, 40, 8],
    [60, 60, 2],
    [10_000, 3_000, 2],
  ])('that took %d ms leave their place empty for %d ms, of %d at once', async (tookMs, restMs, atOnce) => {
    const { begin, end, heavy, close } = await openGreedy(2, atOnce)
    begin('quiet')
    await settled()
    begin('greedy', 2)
    await settled()
    await end(atOnce + 1)
    expect(heavy).toEqual(['greedy'])
    vi.advanceTimersByTime(tookMs)
    // Or else nobody but the greedy one would have had a query for ten seconds.
    begin('quiet')
    await end(1)
    vi.advanceTimersByTime(Math.max(0, restMs - 1))
    await settled()
    expect(heavy).toHaveLength(restMs === 0 ? 2 : 1)
    vi.advanceTimersByTime(1)
    await settled()
    expect(heavy).toHaveLength(2)
    await close()
  })

  it('run as many as they may when no other tenant has had a query for ten seconds', async () => {
    const { begin, end, running, heavy, close } = await openGreedy(2)
    begin('quiet')
    await settled()
    vi.advanceTimersByTime(10_001)
    begin('greedy', 8)
    await end(8)
    expect(running.filter((it) => it === 'greedy')).toHaveLength(16)
    expect(heavy).toEqual([])
    await close()
  })

  it('take turns with slices of long work, which end by themselves', async () => {
    const { tenants, as, begin, end, heavy, close } = await openGreedy(2)
    const signal = new AbortController().signal
    const slices = as('greedy', () => tenants.slices())
    const taken: string[] = []
    const take = async (name: string) => {
      await slices?.(100, signal)
      taken.push(name)
    }
    // Nobody else is there: all at once.
    await Promise.all([take('a'), take('b')])
    begin('quiet')
    await settled()
    void take('c')
    void take('d')
    await settled()
    expect(taken).toEqual(['a', 'b', 'c'])
    begin('greedy')
    await end(1)
    // After a slice the place rests for as long.
    vi.advanceTimersByTime(199)
    await settled()
    expect(taken.at(-1)).toBe('c')
    vi.advanceTimersByTime(1)
    await settled()
    expect([taken.at(-1), heavy]).toEqual(['d', []])
    vi.advanceTimersByTime(200)
    await settled()
    expect(heavy).toEqual(['greedy'])
    const leaving = new AbortController()
    const left = expect(slices?.(100, leaving.signal)).rejects.toThrow('aborted')
    leaving.abort()
    await left
    await close()
  })

  it('that wait in great number refuse no slice of what has begun to answer', async () => {
    const { tenants, as, begin, end, heavy, close } = await openGreedy(2)
    const slices = as('greedy', () => tenants.slices())
    begin('quiet')
    await settled()
    const { signal } = new AbortController()
    const taken: number[] = []
    const all = Array.from({ length: 250 }, async (_, at) => {
      await slices?.(100, signal)
      taken.push(at)
    })
    for (let at = 0; at < 250; at++) {
      vi.advanceTimersByTime(200)
      // Other tenants go on.
      if (at % 50 === 0) begin('quiet')
      await end(0)
    }
    await Promise.all(all)
    expect(taken).toHaveLength(250)
    expect(heavy).toEqual([])
    await close()
  })

  it('of several heavy tenants take turns', async () => {
    const { begin, end, heavy, close } = await openGreedy(2)
    begin('second', 2)
    await settled()
    vi.advanceTimersByTime(5_000)
    begin('quiet')
    await settled()
    begin('greedy', 4)
    begin('second', 4)
    await end(11)
    for (let at = 1; at < 8; at++) await end(1)
    // Who comes first takes no turn.
    expect(heavy.map((it) => it[0]).join('')).toMatch(/^.((gs){3}|(sg){3}).$/)
    await close()
  })
})

describe('streams and exports', () => {
  it('are refused over the limit of the workspace, and let in when one has ended', async () => {
    const { tenants, refused, as } = openTenants({ workspace: { streamsMax: 2, exportsMax: 1 } })
    const hold = (workspaceName: string) => as(workspaceName, () => tenants.hold('streamsMax'))
    const releases = [await hold('own'), await hold('own')]
    await expect(hold('own')).rejects.toThrow('The workspace "own" has 2 streams open at once')
    // Each kind, and each workspace, for itself.
    await as('own', () => tenants.hold('exportsMax'))
    await hold('other')
    // Twice is once.
    releases[0]?.()
    releases[0]?.()
    await hold('own')
    const error = (await hold('own').catch((it: unknown) => it)) as Throttled
    expect(error).toBeInstanceOf(Throttled)
    // It did not wait for as long as it was asked to.
    expect(error.holdMs).toBeGreaterThanOrEqual(500)
    expect(refused).toEqual(['streamsMax', 'streamsMax'])
  })

  it('are refused over the limit of the organization, whichever workspace they are of', async () => {
    const { tenants, as } = openTenants({ organization: { exportsMax: 1 } })
    const release = await as('own', () => tenants.hold('exportsMax'))
    await expect(as('other', () => tenants.hold('exportsMax'))).rejects.toThrow(
      'This organization has 1 exports at once',
    )
    expect(tenants.inUse({ organizationId: 'organization', userId: null }, 'exportsMax')).toBe(1)
    release()
    await as('other', () => tenants.hold('exportsMax'))
  })
})
