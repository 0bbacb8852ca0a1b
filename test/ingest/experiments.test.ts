import { expect, it } from 'vitest'
import type { Caller } from '../../http/route.ts'
import { createExperimentCheck } from '../../ingest/experiments.ts'
import type { Refusal } from '../../store/postgres/accounts/visibility.ts'

const limits = {}
const [ann, bob] = ['ann', 'bob'].map((viewerId) => ({ viewerId, place: null })) as [Caller, Caller]

it('looks up the experiments of concurrent requests together, but per caller', async () => {
  const asked: [string, string[]][] = []
  const findExperiment = createExperimentCheck(async (viewerId, keys) => {
    asked.push([viewerId, keys])
    // Each may write to what begins with their name.
    const own = keys.filter((key) => key.startsWith(viewerId))
    const toRefusal = (key: string) => (/ (role|withheld)$/.exec(key)?.[1] ?? null) as Refusal | null
    const form = { takesChunks: true, hasRows: false, hasChunks: false }
    return new Map(
      own.map((key) => [key, { id: BigInt(key.length), limits, ...form, workspaceName: 'w', refusal: toRefusal(key) }]),
    )
  })

  const found = await Promise.all([findExperiment(ann, 'ann1'), findExperiment(ann, 'ann12')])
  expect(found).toMatchObject([{ id: 4n }, { id: 5n }])
  expect(asked).toEqual([['ann', ['ann1', 'ann12']]])
  // What is known is answered without a promise.
  expect(findExperiment(ann, 'ann1')).toMatchObject({ id: 4n })

  const outcomes = await Promise.allSettled([
    findExperiment(bob, 'ann1'),
    findExperiment(bob, 'bob withheld'),
    findExperiment(bob, 'bob role'),
    findExperiment(ann, 'ann123'),
  ])
  expect(outcomes).toMatchObject([
    { reason: { kind: 'experimentUnknown' } },
    { reason: { kind: 'accountRestricted' } },
    {
      reason: { kind: 'experimentReadOnly', message: expect.stringContaining('editor or owner in the workspace "w"') },
    },
    { value: { id: 6n } },
  ])
  expect(asked.slice(1)).toEqual([
    ['bob', ['ann1', 'bob withheld', 'bob role']],
    ['ann', ['ann123']],
  ])
})
