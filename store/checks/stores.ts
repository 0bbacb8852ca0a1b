import type { ClickHouse } from '../clickhouse/connection.ts'
import type { Secrets } from '../postgres/accounts/secrets.ts'
import type { Database, Queries } from '../postgres/database.ts'
import type { QueueBackend } from '../queue/queue.ts'
import { describeRedisAddress } from '../redis/address.ts'
import { clickhouseChecks } from './clickhouse.ts'
import type { Check } from './finding.ts'
import { masterKeyCheck } from './master-key.ts'
import { objectsCheck } from './objects.ts'
import { postgresChecks } from './postgres.ts'
import { postgresReplicaCheck } from './postgres-replica.ts'
import { queueCheck, redisCheck } from './queue.ts'

/** The stores to check, each with its address; absent ones are left out. */
export type CheckedStores = {
  postgres?: { url: string; database: Database; replica?: { url: string; queries: Queries } | undefined }
  /** Undefined without a master key; may throw when the key cannot be read. */
  openSecrets(): Secrets | undefined
  clickhouse?: { url: string; clickhouse: ClickHouse }
  queue?: { redisUrl: string | undefined; backend: QueueBackend; max: { blocks: number } }
  objectsUrl?: string
}

/** What `svc doctor` and the api check of the stores, in the order in which it is shown. */
export function storeChecks({ postgres, openSecrets, clickhouse, queue, objectsUrl }: CheckedStores): Check[] {
  const checks: Check[] = []
  const nameOf = (store: string, url: string) => `${store} at ${new URL(url).host}`
  if (postgres) {
    const { url, database, replica } = postgres
    const [server, ...others] = postgresChecks(nameOf('Postgres', url), database)
    if (server) checks.push(server)
    if (replica) checks.push(postgresReplicaCheck(nameOf('Postgres replica', replica.url), database, replica.queries))
    checks.push(masterKeyCheck(database, openSecrets), ...others)
  }
  if (clickhouse) checks.push(...clickhouseChecks(nameOf('ClickHouse', clickhouse.url), clickhouse.clickhouse))
  if (queue) {
    const { redisUrl, backend, max } = queue
    if (redisUrl) checks.push(redisCheck(`Redis at ${describeRedisAddress(redisUrl)}`, redisUrl, backend))
    checks.push(queueCheck(backend, max))
  }
  if (objectsUrl) {
    const { host, pathname } = new URL(objectsUrl)
    checks.push(objectsCheck(`objects at ${host}${pathname}`, objectsUrl))
  }
  return checks
}
