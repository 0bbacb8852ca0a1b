import { type Finding, ok, warning } from './finding.ts'

/** Above this, leases end early, and receivers refuse webhooks because of their timestamps. */
const skewMsMax = 2_000

/** Compares another clock with ours. `theirsMs` was read between `askedMs` and `answeredMs`. */
export function compareClock(name: string, theirsMs: number, askedMs: number, answeredMs: number): Finding {
  const early = theirsMs - answeredMs
  const late = askedMs - theirsMs
  const skewMs = Math.max(0, early, late)
  if (skewMs <= skewMsMax) return ok(name, `within ${Math.max(1, Math.ceil((answeredMs - askedMs) / 1_000))} s of ours`)
  const direction = early > late ? 'ahead of' : 'behind'
  return warning(
    name,
    `is ${Math.round(skewMs / 1_000)} s ${direction} ours: synchronize both machines (NTP). Leases and retention depend on it.`,
  )
}
