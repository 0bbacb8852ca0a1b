export type ColumnType = 'UInt8' | 'UInt32' | 'UInt64' | 'Int64' | 'Float64' | 'String' | 'LowCardinality(String)'

export type Column = {
  name: string
  /** The type in blocks, and in the table unless `storedAs` differs. */
  type: ColumnType
  codec: string
  /** The column that is stored instead, computed as rows are inserted. */
  storedAs?: { name: string; type: ColumnType; from: string }
}

export type Table = {
  name: string
  columns: readonly Column[]
  /** The columns that reads filter by; the sparse index on them is held in memory. Clusters shard by the first one. */
  primaryKey: string[]
  /** The rest of the sorting key. */
  identity: string[]
}
