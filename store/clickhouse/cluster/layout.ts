/**
 * A single ClickHouse server, or a cluster (`CLICKHOUSE_CLUSTER`).
 *
 * In a cluster every table is two. `points_local` holds the rows: it is replicated within a shard, and views and rollups
 * are attached to it. `points` is a `Distributed` table over the local ones: all reads and inserts use it, so queries are
 * the same with and without a cluster. DDL and deletions go to the local tables, `ON CLUSTER`.
 *
 * Rows are sharded by experiment or monitored model, so all deliveries of a row are on one shard, where merges and `FINAL`
 * collapse them. Reads still ask all shards, because adding a shard does not move existing rows. A shard without rows of an
 * experiment answers at once from its primary key.
 *
 * An insert is done when each shard has its rows on a quorum of replicas (`distributed_foreground_insert`,
 * `insert_quorum`). It may fail on one shard after it succeeded on another. It is then repeated as a whole, and row
 * identities collapse the duplicates. ClickHouse's own deduplication of inserts stays off here too.
 *
 * All processes use the replicas of a shard in the same order (`load_balancing = in_order`), for inserts and for reads. So
 * a read sees earlier inserts without waiting for replication, and runs on the replica that listed the parts it names.
 * Replicas are for durability, shards for load.
 */
export type Layout = {
  database: string
  /** The name of the cluster in `remote_servers`; undefined for a single server. */
  cluster: string | undefined
}

/** What tables are sharded by. */
export type ShardedBy = 'experiment_id' | 'model_id'

/** For DDL and deletions. */
export const onCluster = ({ cluster }: Layout) => (cluster === undefined ? '' : ` ON CLUSTER '${cluster}'`)

const localSuffix = '_local'

/** The table that holds the rows. */
export const toLocal = ({ cluster }: Layout, table: string) =>
  cluster === undefined ? table : `${table}${localSuffix}`

/** The name of a local table in queries. */
export const fromLocal = ({ cluster }: Layout, table: string) =>
  cluster !== undefined && table.endsWith(localSuffix) ? table.slice(0, -localSuffix.length) : table

/**
 * The engine of a table that holds rows. Its Keeper path is explicit: ClickHouse's default path contains the table's id, so
 * a replica that is added later would not join the others.
 */
export function toEngine({ cluster, database }: Layout, table: string, engine: string, parameter?: string): string {
  const path = [`'/clickhouse/tables/${cluster}/{shard}/${database}/${table}'`, "'{replica}'"]
  const parameters = [...(cluster === undefined ? [] : path), ...(parameter === undefined ? [] : [parameter])]
  return `${cluster === undefined ? '' : 'Replicated'}${engine}(${parameters.join(', ')})`
}

/** The engine of a small table that is replicated to every server, regardless of shards. */
export function toSharedEngine({ cluster, database }: Layout, table: string, engine: string): string {
  if (cluster === undefined) return `${engine}()`
  return `Replicated${engine}('/clickhouse/tables/${cluster}/all/${database}/${table}', '{shard}-{replica}')`
}

/** Fetched parts are fsynced like inserted ones, or else a quorum would be only one durable copy. */
export const clusterTableSettings = ({ cluster }: Layout) =>
  cluster === undefined ? [] : ['min_compressed_bytes_to_fsync_after_fetch = 1']

/** The statements that create the Distributed table over the local ones. */
export function createDistributed(layout: Layout, table: string, by: ShardedBy): string[] {
  const { database, cluster } = layout
  if (cluster === undefined) return []
  return [
    `CREATE TABLE IF NOT EXISTS ${database}.${table}${onCluster(layout)} AS ${database}.${toLocal(layout, table)}
    ENGINE = Distributed('${cluster}', '${database}', '${toLocal(layout, table)}', intHash64(${by}))`,
  ]
}

/** The statements that add a column to an existing table. */
export const addColumn = (layout: Layout, table: string, column: string): string[] =>
  [...new Set([toLocal(layout, table), table])].map(
    (name) => `ALTER TABLE ${layout.database}.${name}${onCluster(layout)} ADD COLUMN IF NOT EXISTS ${column}`,
  )

/** A system table in a cluster: read from the replica of each shard that also serves reads and inserts. */
export const systemTable = ({ cluster }: Layout, table: string) =>
  cluster === undefined ? `system.${table}` : `cluster('${cluster}', system.${table})`

/** Settings of every query in a cluster. */
export const clusterReadSettings = {
  load_balancing: 'in_order',
  prefer_localhost_replica: 0,
  // A subquery in IN or JOIN covers all shards: it runs once, and its result is sent to each.
  distributed_product_mode: 'global',
  // An answer that lacks a shard would be wrong.
  skip_unavailable_shards: 0,
} as const

/** Settings of all inserts and DDL in a cluster. */
export const clusterWriteSettings = (insertQuorum: string) =>
  ({
    ...clusterReadSettings,
    distributed_foreground_insert: 1,
    insert_quorum: insertQuorum,
    insert_quorum_timeout: 60_000,
    // Rows read from one shard may belong to another.
    parallel_distributed_insert_select: '0',
  }) as const
