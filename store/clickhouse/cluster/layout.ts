/**
 * One ClickHouse, or a cluster of them (`CLICKHOUSE_CLUSTER`).
 *
 * In a cluster every table is two. `points_local` holds the rows: it is replicated within a shard, and views and rollups hang
 * on it. `points` is a `Distributed` table over the local ones: everything reads from it and inserts into it, so that queries
 * are the same with and without a cluster. Definitions and deletions go to the local tables, `ON CLUSTER`.
 *
 * Rows are sharded by what they belong to, an experiment or a monitored model, so what makes one row of what was delivered
 * twice (merges, `FINAL`) meets all of it on one shard. Reads ask all shards nevertheless: shards that are added move no rows
 * that are there, and whoever has none of an experiment says so by its primary key.
 *
 * An insert is done when each shard has its rows on a quorum of replicas (`distributed_foreground_insert`, `insert_quorum`).
 * It may end half-way, done on one shard and not on another: it is repeated whole, as after any fault, and identities make
 * one row of two. ClickHouse's own deduplication of inserts stays off, here too: nothing depends on it.
 *
 * All processes ask the replicas of a shard in the same order (`load_balancing = in_order`), for inserts and for reads: what
 * was inserted is read at once, without waiting for the other replicas, and the parts that a query names are those of the
 * replica that listed them. Replicas are for durability, shards for load.
 */
export type Layout = {
  database: string
  /** The name of the cluster in `remote_servers`; undefined for a single server. */
  cluster: string | undefined
}

/** What tables are sharded by. */
export type ShardedBy = 'experiment_id' | 'model_id'

/** For each statement that defines or deletes. */
export const onCluster = ({ cluster }: Layout) => (cluster === undefined ? '' : ` ON CLUSTER '${cluster}'`)

const localSuffix = '_local'

/** The table that holds the rows. */
export const toLocal = ({ cluster }: Layout, table: string) =>
  cluster === undefined ? table : `${table}${localSuffix}`

/** The name that queries know a table by. */
export const fromLocal = ({ cluster }: Layout, table: string) =>
  cluster !== undefined && table.endsWith(localSuffix) ? table.slice(0, -localSuffix.length) : table

/**
 * The engine of a table that holds rows. Its path in Keeper is spelled out: ClickHouse's default contains the id of the
 * table, so a replica that is added later would not join the others.
 */
export function toEngine({ cluster, database }: Layout, table: string, engine: string, parameter?: string): string {
  const path = [`'/clickhouse/tables/${cluster}/{shard}/${database}/${table}'`, "'{replica}'"]
  const parameters = [...(cluster === undefined ? [] : path), ...(parameter === undefined ? [] : [parameter])]
  return `${cluster === undefined ? '' : 'Replicated'}${engine}(${parameters.join(', ')})`
}

/** The engine of a small table that every server of the cluster holds whole, whatever its shard. */
export function toSharedEngine({ cluster, database }: Layout, table: string, engine: string): string {
  if (cluster === undefined) return `${engine}()`
  return `Replicated${engine}('/clickhouse/tables/${cluster}/all/${database}/${table}', '{shard}-{replica}')`
}

/** Fetched parts are as durable as inserted ones, or else a quorum would be of one. */
export const clusterTableSettings = ({ cluster }: Layout) =>
  cluster === undefined ? [] : ['min_compressed_bytes_to_fsync_after_fetch = 1']

/** The statements that make the table which queries know, over those that hold its rows. */
export function createDistributed(layout: Layout, table: string, by: ShardedBy): string[] {
  const { database, cluster } = layout
  if (cluster === undefined) return []
  return [
    `CREATE TABLE IF NOT EXISTS ${database}.${table}${onCluster(layout)} AS ${database}.${toLocal(layout, table)}
    ENGINE = Distributed('${cluster}', '${database}', '${toLocal(layout, table)}', intHash64(${by}))`,
  ]
}

/** The statements that add a column to a table which is there already. */
export const addColumn = (layout: Layout, table: string, column: string): string[] =>
  [...new Set([toLocal(layout, table), table])].map(
    (name) => `ALTER TABLE ${layout.database}.${name}${onCluster(layout)} ADD COLUMN IF NOT EXISTS ${column}`,
  )

/** A system table as a cluster has it: of the replica of each shard that reads and inserts go to. */
export const systemTable = ({ cluster }: Layout, table: string) =>
  cluster === undefined ? `system.${table}` : `cluster('${cluster}', system.${table})`

/** What every query of a cluster is run with. */
export const clusterReadSettings = {
  load_balancing: 'in_order',
  prefer_localhost_replica: 0,
  // A subquery on the right of IN or JOIN is about all shards: it is run once, and its answer sent to each.
  distributed_product_mode: 'global',
  // An answer without a shard that is away would be a wrong one.
  skip_unavailable_shards: 0,
} as const

/** What every insert and every definition of a cluster is run with. */
export const clusterWriteSettings = (insertQuorum: string) =>
  ({
    ...clusterReadSettings,
    distributed_foreground_insert: 1,
    insert_quorum: insertQuorum,
    insert_quorum_timeout: 60_000,
    // Rows that are read from one shard may belong to another.
    parallel_distributed_insert_select: '0',
  }) as const
