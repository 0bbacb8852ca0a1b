import { describe, expect, it } from 'vitest'
import { waitAtMost, withTimeout } from '../../runtime/timeout.ts'

const never = new Promise<never>(() => undefined)
const long = 60_000
const late = () => new Error('late')

describe('work with a time-out', () => {
  it('resolves with the result of the work', async () => {
    expect(await withTimeout(Promise.resolve(7), long, late)).toBe(7)
  })

  it('rejects with the error of the work', async () => {
    await expect(withTimeout(Promise.reject(new Error('broken')), long, late)).rejects.toThrow('broken')
  })

  it('rejects with the given reason when the work takes longer', async () => {
    await expect(withTimeout(never, 1, late)).rejects.toThrow('late')
  })
})

describe('a wait with a limit', () => {
  it('resolves or rejects with the work', async () => {
    await waitAtMost(Promise.resolve(), long)
    await expect(waitAtMost(Promise.reject(new Error('broken')), long)).rejects.toThrow('broken')
  })

  it('resolves at the limit when the work takes longer', async () => {
    expect(await waitAtMost(never, 1)).toBeUndefined()
  })
})
