import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nextPatch, parseSemver, toPrecedence } from '../../store/registry/semver.ts'

const precedence = (version: string) => {
  const parsed = parseSemver(version)
  if (!parsed) throw new Error(`${version} is no version`)
  return toPrecedence(parsed)
}

/** As Postgres compares texts with the collation C. */
const compare = (one: string, other: string) => Math.sign(Buffer.compare(Buffer.from(one), Buffer.from(other)))

it('versions are told from other texts as semver.org does', () => {
  const right = [
    '0.0.0',
    '1.2.3',
    '10.20.30',
    '1.0.0-alpha.1',
    '1.0.0--',
    '1.0.0-0a.b',
    '1.0.0+01',
    '2.0.1-x-y.1+b.-',
    '1.0.0-0',
  ]
  const wrong = [
    '',
    '1',
    '1.2',
    '1.2.3.4',
    '01.1.1',
    '1.01.1',
    '1.1.01',
    '1.0.0-01',
    '1.0.0-',
    '1.0.0+',
    '1.0.0-a..b',
    '-1.0.0',
    'a.b.c',
    '1.0.0 ',
    '1.0.0\n',
    '1.0.0-ü',
    '１.0.0',
  ]
  expect(right.filter((it) => parseSemver(it) === undefined)).toEqual([])
  expect(wrong.filter((it) => parseSemver(it) !== undefined)).toEqual([])
})

describe('the precedence of versions', () => {
  it('is that of semver.org', () => {
    const inOrder = [
      '0.0.1',
      '0.0.2',
      '0.0.10',
      '0.1.0',
      '0.10.0',
      '1.0.0-0',
      '1.0.0-2',
      '1.0.0-10',
      '1.0.0-2a',
      '1.0.0-A',
      '1.0.0-alpha',
      '1.0.0-alpha.1',
      '1.0.0-alpha.beta',
      '1.0.0-alpha-1',
      '1.0.0-beta',
      '1.0.0-beta.2',
      '1.0.0-beta.11',
      '1.0.0-rc.1',
      '1.0.0',
      '1.0.1',
      '1.2.0',
      '1.10.0',
      '2.0.0',
      '10.0.0',
      '99999999999999999999.0.0',
    ]
    expect(inOrder.toSorted((a, b) => compare(precedence(a), precedence(b)))).toEqual(inOrder)
    expect(new Set(inOrder.map(precedence)).size).toBe(inOrder.length)
    expect(precedence('1.0.0+a')).toBe(precedence('1.0.0+b'))
  })

  it('equals the comparison part by part', () => {
    const number = fc.bigInt({ min: 0n, max: 10n ** 20n }).map(String)
    const word = fc.stringMatching(/^[0-9a-zA-Z-]{0,3}[a-zA-Z-][0-9a-zA-Z-]{0,3}$/)
    const few = fc.array(fc.oneof(fc.constantFrom('0', '1', '10', 'a', 'A', '-'), number, word), { maxLength: 3 })
    const version = fc.tuple(fc.constantFrom('1', '2', '10'), number, fc.constantFrom('0', '9', '11'), few)
    const write = ([major, minor, patch, before]: [string, string, string, string[]]) =>
      `${major}.${minor}.${patch}${before.length > 0 ? `-${before.join('.')}` : ''}`

    fc.assert(
      fc.property(version, version, fc.boolean(), (one, other, sameNumbers) => {
        const second: typeof other = sameNumbers ? [one[0], one[1], one[2], other[3]] : other
        const [a, b] = [write(one), write(second)]
        expect(compare(precedence(a), precedence(b)), `${a} and ${b}`).toBe(compareParts(one, second))
      }),
      { numRuns: 2_000 },
    )
  })
})

type Parts = [string, string, string, string[]]

/** Clause 11 of semver.org, word by word. */
function compareParts(one: Parts, other: Parts): number {
  for (const at of [0, 1, 2] as const) {
    if (one[at] !== other[at]) return BigInt(one[at]) < BigInt(other[at]) ? -1 : 1
  }
  const [before, otherBefore] = [one[3], other[3]]
  if (before.length === 0 || otherBefore.length === 0) return Math.sign(otherBefore.length - before.length)
  for (const [at, it] of before.entries()) {
    const that = otherBefore[at]
    if (that === undefined) return 1
    if (it === that) continue
    const [isNumber, thatIsNumber] = [/^\d+$/.test(it), /^\d+$/.test(that)]
    if (isNumber && thatIsNumber) return BigInt(it) < BigInt(that) ? -1 : 1
    if (isNumber !== thatIsNumber) return isNumber ? -1 : 1
    return it < that ? -1 : 1
  }
  return before.length < otherBefore.length ? -1 : 0
}

it.each([
  ['1.2.3', '1.2.4'],
  ['1.2.3-rc.1', '1.2.3'],
  ['1.2.3+b', '1.2.4'],
  ['0.0.99999999999999999999', '0.0.100000000000000000000'],
])('after %s comes %s', (version, next) => {
  expect(nextPatch(parseSemver(version) as never)).toBe(next)
})
