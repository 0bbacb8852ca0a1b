import type { ClickHouse } from '../connection.ts'
import { summaryTable } from '../points/summaries/summary.ts'

/**
 * Checks that the server knows the cluster CLICKHOUSE_CLUSTER, and that inserts into it reach all replicas of a shard.
 *
 * @throws Error that says what to do
 */
export async function checkCluster({ cluster, rows }: ClickHouse): Promise<void> {
  if (cluster === undefined) return
  type Shard = { cluster: string; shard: number; replicas: number; isReplicated: number }
  const shards = await rows<Shard>(
    `SELECT cluster, shard_num AS shard, count() AS replicas, min(internal_replication) AS isReplicated
     FROM system.clusters GROUP BY cluster, shard ORDER BY cluster, shard`,
  )
  const ours = shards.filter((it) => it.cluster === cluster)
  if (ours.length === 0) {
    const known = [...new Set(shards.map((it) => it.cluster))].join(', ') || 'none'
    throw new Error(
      `CLICKHOUSE_CLUSTER is ${cluster}, and the server knows no such cluster in remote_servers: ${known}.`,
    )
  }
  const wrong = ours.find((it) => it.replicas > 1 && !it.isReplicated)
  if (wrong) {
    throw new Error(
      `Inserts into shard ${wrong.shard} of the cluster ${cluster} would bypass replication: set ` +
        '<internal_replication>true</internal_replication> for each shard in remote_servers.',
    )
  }
}

/**
 * Checks that the tables were created for this layout: single-server tables cannot become cluster tables, or the reverse.
 *
 * @throws Error that says what to do
 */
export async function checkLayout({ cluster, database, rows }: ClickHouse): Promise<void> {
  const [found] = await rows<{ engine: string }>(
    'SELECT engine FROM system.tables WHERE database = {database:String} AND name = {summary:String}',
    { database, summary: summaryTable },
  )
  if (!found || (found.engine === 'Distributed') === (cluster !== undefined)) return
  throw new Error(
    cluster === undefined
      ? `The tables of ${database} are those of a cluster: set CLICKHOUSE_CLUSTER.`
      : `The tables of ${database} are those of a single server. Give CLICKHOUSE_URL the name of a new database, run ` +
          '"svc migrate", and copy the rows over (docs/scaling.md).',
  )
}
