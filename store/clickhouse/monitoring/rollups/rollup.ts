/** The events of one version in a rollup; times in ms since the Unix epoch. */
export type RolledVersion = { version: string; events: number; first: bigint; last: bigint; received: bigint }

/** The sums of all events of a range of claims, both bounds included. Never changed once published. */
export type Rollup = {
  id: string
  /** 0 of events, else one more than that of the rollups it was made of; `wholeLevel` of all there was. */
  level: number
  low: bigint
  high: bigint
  /** The number of rows it was made of by table, those of tombstoned events included: it is current while there are as many. */
  rows: { [table: string]: number }
  /** Events of the range that were tombstoned when it was made, and so are not in it. */
  tombstones: number
  /** The earliest and the latest timestamp of its rows, ms since the Unix epoch. */
  first: number
  last: number
  versions: RolledVersion[]
}
