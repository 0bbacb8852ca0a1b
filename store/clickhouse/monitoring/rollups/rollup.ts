/** What is known of the events of one version in a rollup; times in ms since the Unix epoch. */
export type RolledVersion = { version: string; events: number; first: bigint; last: bigint; received: bigint }

/** A range of numbers of events, both bounds within, that was summed up. */
export type Rollup = {
  id: string
  /** Of events 0, of rollups the one above theirs; `wholeLevel` when it is of all there was. */
  level: number
  low: bigint
  high: bigint
  /** Rows that it was made of, those of voided events with them. */
  rows: { [table: string]: number }
  /** Events that were voided when it was made, and so are not in it. */
  voided: number
  /** The earliest and the latest timestamp of its rows, ms since the Unix epoch. */
  first: number
  last: number
  versions: RolledVersion[]
}
