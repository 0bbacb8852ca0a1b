import { type Finding, ok, warning } from './finding.ts'

/** More apart, and what happened first is told last: leases end early, webhooks are refused for their time. */
const skewMsMax = 2_000

/** Compares a clock with ours: whoever asked it did so between the two times. */
export function compareClock(name: string, theirsMs: number, askedMs: number, answeredMs: number): Finding {
  const early = theirsMs - answeredMs
  const late = askedMs - theirsMs
  const skewMs = Math.max(0, early, late)
  if (skewMs <= skewMsMax) return ok(name, `within ${Math.max(1, Math.ceil((answeredMs - askedMs) / 1_000))} s of ours`)
  const direction = early > late ? 'ahead of' : 'behind'
  return warning(
    name,
    `is ${Math.round(skewMs / 1_000)} s ${direction} ours: let both machines follow the same time (NTP), or leases and ` +
      'retention go by the wrong one',
  )
}
