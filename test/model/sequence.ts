import fc from 'fast-check'

/**
 * The commands of the writers of one experiment. They shrink well, because they alone determine what is sent. Commands of a
 * group run concurrently; a group starts when all answers to the previous one have arrived.
 */
export type Sequence = { groups: Command[][] }

type Command = Send | Crash

/** One request, sent `times` times. */
export type Send = {
  kind: 'send'
  writer: number
  /** Lines of output, or points packed in one of four ways. */
  as: 'point' | 'rows' | 'columns' | 'rows and columns' | 'lines'
  rows: Row[]
  /** No Idempotency-Key, one of its own, or one of a few that other requests use as well. */
  key: 'none' | 'own' | 'first' | 'second'
  times: number
}

/** The writer forgets its last steps and goes on from there, as after a restart from a checkpoint. */
type Crash = { kind: 'crash'; writer: number; stepsBack: number }

export type Row = {
  metric: string
  context: string
  value: number
  step: 'next' | 'same' | 'absent' | bigint
  epoch: bigint | undefined
  /** Of the writer's clock, which may jump; `ticks` goes on from where it stands. */
  time: 'ticks' | 'absent' | bigint
}

const writersMax = 64
const int64Min = -(2n ** 63n)
const int64Max = 2n ** 63n - 1n

// Some summary names mean two series: a_b_c is c in the context a_b, and b_c in the context a.
const metric = fc.constantFrom('loss', 'b_c', 'c')
const context = fc.constantFrom('', 'a', 'a_b')
const value = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: -2, max: 2 }) },
  { weight: 2, arbitrary: fc.double() },
  {
    weight: 3,
    arbitrary: fc.constantFrom(Number.NaN, Infinity, -Infinity, -0, 0, 5e-324, Number.MAX_VALUE, 0.1 + 0.2),
  },
)
const extreme = fc.constantFrom(int64Min, int64Max, 2n ** 53n + 1n, -(2n ** 53n) - 1n, 0n, -1n)
const year1970 = fc.constantFrom(0n, 1n, -1n)
const farAway = fc.constantFrom(253_402_300_799_999n, 1_600_000_000_000n, int64Max, int64Min)

const anyRow: fc.Arbitrary<Row> = fc.record({
  metric,
  context,
  value,
  step: fc.oneof(
    { weight: 6, arbitrary: fc.constant('next' as const) },
    { weight: 2, arbitrary: fc.constantFrom('same' as const, 'absent' as const) },
    { weight: 1, arbitrary: fc.bigInt({ min: 0n, max: 5n }) },
    { weight: 1, arbitrary: extreme },
  ),
  epoch: fc.option(fc.oneof(fc.bigInt({ min: 0n, max: 3n }), extreme), { nil: undefined }),
  time: fc.oneof(
    { weight: 4, arbitrary: fc.constant('ticks' as const) },
    { weight: 3, arbitrary: fc.constant('absent' as const) },
    { weight: 1, arbitrary: fc.oneof(year1970, farAway) },
  ),
})

/** Points that differ only in what is easily confused: absent and 0, 0 and -0. */
const nearlyAlike: fc.Arbitrary<Row> = fc.record({
  metric: fc.constant('loss'),
  context: fc.constant(''),
  value: fc.constantFrom(0, -0),
  step: fc.constantFrom('absent' as const, 0n),
  epoch: fc.constantFrom(undefined, 0n),
  time: fc.constantFrom('absent' as const, 0n),
})

const row = fc.oneof({ weight: 5, arbitrary: anyRow }, { weight: 1, arbitrary: nearlyAlike })

const writer = fc.nat(writersMax - 1)
const send: fc.Arbitrary<Send> = fc.record({
  kind: fc.constant('send'),
  writer,
  as: fc.constantFrom('point', 'rows', 'columns', 'rows and columns', 'lines'),
  rows: fc.array(row, { minLength: 1, maxLength: 8 }),
  key: fc.constantFrom('none', 'own', 'own', 'first', 'second'),
  times: fc.constantFrom(1, 1, 1, 2, 3),
})
const crash: fc.Arbitrary<Crash> = fc.record({ kind: fc.constant('crash'), writer, stepsBack: fc.nat(5) })
const command = fc.oneof({ weight: 9, arbitrary: send as fc.Arbitrary<Command> }, { weight: 1, arbitrary: crash })
/** Mostly a few commands, sometimes as many as there are writers. */
const group = fc.oneof(
  { weight: 30, arbitrary: fc.array(command, { minLength: 1, maxLength: 6 }) },
  { weight: 1, arbitrary: fc.array(command, { minLength: 1, maxLength: writersMax }) },
)

export const sequences: fc.Arbitrary<Sequence> = fc.record({ groups: fc.array(group, { minLength: 1, maxLength: 4 }) })
