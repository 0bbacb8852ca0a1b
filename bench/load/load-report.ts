/** One round as the load process saw it. */
export type LoadReport = {
  /**
   * The time from the command to run until the first request: connecting, or encoding blocks. It is not part of the
   * measurement.
   */
  preparingSeconds: number
  seconds: number
  requests: number
  /** Points acknowledged in this round, by index of the experiment. */
  acknowledged: number[]
  /** Points whose request was rejected or not answered: they may be stored or not. */
  unclearPoints: number
  errors: Record<string, number>
  p50Ms: number
  p99Ms: number
  /** True if the prepared requests ran out before the time did. */
  isUsedUp: boolean
}
