export type NumberType = 'UInt8' | 'UInt32' | 'UInt64' | 'Int64' | 'Float64'
export type ColumnType =
  | NumberType
  | 'String'
  | 'LowCardinality(String)'
  | 'UInt256'
  | 'AggregateFunction(argMax, UInt64, UInt256)'
  | `Array(${NumberType | 'LowCardinality(String)'})`

export type Column = {
  name: string
  /** The type in blocks, and in the table unless `storedAs` differs. */
  type: ColumnType
  codec: string
  /** The values that are pushed into a block, which has their bits. */
  bitsOf?: 'Array(Float64)'
  /** The column that is stored instead, computed as rows are inserted. */
  storedAs?: { name: string; type: ColumnType; from: string }
}

export type Table = {
  name: string
  columns: readonly Column[]
  /** Further columns, which ClickHouse computes as rows are inserted, unless the block has them. */
  derived?: readonly { name: string; type: ColumnType; codec: string; from: string }[]
  /** The columns that reads filter by; the sparse index on them is held in memory. Clusters shard by the first one. */
  primaryKey: readonly string[]
  /** The rest of the sorting key. */
  identity: readonly string[]
  /** Of rows with the same sorting key, the one with the greatest value of this column stays, instead of the last. */
  version?: string
  /** Rows of a granule, which the sparse index has an entry for. */
  indexGranularity?: number
  settings?: readonly string[]
  /** Those that a migration added: `ALTER` puts them last, so a new table has them last, too, and its text is that of an upgraded one. */
  laterSettings?: readonly string[]
}
