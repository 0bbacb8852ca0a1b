/** One round as the load process saw it. */
export type LoadReport = {
  /** From the order to run until the first request: connecting, or making blocks. It is on nobody's clock. */
  preparingSeconds: number
  seconds: number
  requests: number
  /** Points acknowledged in this round, by the number of the experiment. */
  acknowledged: number[]
  /** Points whose request was refused or not answered: they may be stored or not. */
  unclearPoints: number
  errors: Record<string, number>
  p50Ms: number
  p99Ms: number
  /** True when the prepared requests ran out before the time did. */
  isUsedUp: boolean
}
