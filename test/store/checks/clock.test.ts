import { expect, it } from 'vitest'
import { compareClock } from '../../../store/checks/clock.ts'

it('a clock that was read while we asked is well, however long that took', () => {
  expect(compareClock('clock', 5_000, 1_000, 9_000)).toMatchObject({ state: 'ok' })
  expect(compareClock('clock', 2_500, 1_000, 1_200)).toMatchObject({ state: 'ok' })
})

it('one that is ahead or behind is told, with by how much', () => {
  expect(compareClock('clock', 31_200, 1_000, 1_200)).toMatchObject({
    state: 'warning',
    message: expect.stringMatching(/^is 30 s ahead of ours: .*NTP/),
  })
  expect(compareClock('clock', 1_000, 61_000, 61_500)).toMatchObject({
    state: 'warning',
    message: expect.stringMatching(/^is 60 s behind ours: /),
  })
})
