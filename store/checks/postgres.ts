import type { Database } from '../postgres/database.ts'
import { countDeadLetters } from '../postgres/dead-letters.ts'
import { checkPostgres } from '../postgres/migrate.ts'
import { readPostgresState } from '../postgres/state.ts'
import { countPendingDeliveries, findOldestDueMs } from '../postgres/webhooks/deliveries.ts'
import { compareClock } from './clock.ts'
import { bytes, type Check, duration, type Finding, ok, orOk, percent, warning, wrong } from './finding.ts'

const versionMin = 14
const connectionsShareMax = 0.8
const transactionSecondsMax = 3_600
const keptWalBytesMax = 1e9
const dueSecondsMax = 300

export function postgresChecks(name: string, database: Database): Check[] {
  return [
    { name, run: () => checkServer(name, database) },
    { name: 'dead letters', run: () => checkDeadLetters(database) },
    { name: 'webhooks', run: () => checkWebhooks(database) },
  ]
}

async function checkServer(name: string, database: Database): Promise<Finding[]> {
  const askedMs = Date.now()
  const state = await readPostgresState(database)
  const clock = compareClock('clock of Postgres', state.nowMs, askedMs, Date.now())
  await checkPostgres(database)
  const slots = await database.rows<{ name: string; bytes: number }>(
    `SELECT slot_name AS name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::float8 AS bytes
     FROM pg_replication_slots WHERE NOT active AND restart_lsn IS NOT NULL AND NOT pg_is_in_recovery()`,
  )
  const { connections, connectionsMax } = state
  return [
    ...orOk(
      name,
      [
        state.versionNumber < versionMin * 10_000 &&
          wrong(name, `has version ${state.version}: svc needs ${versionMin} or newer`),
        state.isInRecovery && wrong(name, 'is a standby and takes no writes: set POSTGRES_URL to the primary'),
        state.fsync === 'off' &&
          wrong(name, 'runs with fsync off: acknowledged writes are lost when its machine fails. Turn it on.'),
        state.synchronousCommit === 'off' &&
          wrong(name, 'runs with synchronous_commit off: a crash loses acknowledged writes. Turn it on.'),
        connections > connectionsMax * connectionsShareMax &&
          warning(
            name,
            `has ${connections} of ${connectionsMax} connections in use: raise max_connections, or run fewer processes`,
          ),
        state.oldestTransactionSeconds > transactionSecondsMax &&
          warning(
            name,
            `has a transaction that has been open for ${duration(state.oldestTransactionSeconds)}: tables grow meanwhile. ` +
              'End it (pg_stat_activity shows its owner).',
          ),
        ...slots
          .filter((slot) => slot.bytes > keptWalBytesMax)
          .map((slot) =>
            warning(
              name,
              `keeps ${bytes(slot.bytes)} of WAL for the inactive replication slot ${slot.name}: drop it, or the disk ` +
                'fills up',
            ),
          ),
      ],
      `${state.version}; ${connections} of ${connectionsMax} connections (${percent(connections / connectionsMax)}); ` +
        bytes(state.databaseBytes),
    ),
    clock,
  ]
}

async function checkDeadLetters(database: Database): Promise<Finding[]> {
  const { letters, rows } = await countDeadLetters(database)
  if (letters === 0) return [ok('dead letters', 'none')]
  return [
    warning(
      'dead letters',
      `${letters} with ${rows} rows that ClickHouse refused for good: see "svc dead-letters list"`,
    ),
  ]
}

async function checkWebhooks(database: Database): Promise<Finding[]> {
  const nowMs = Date.now()
  const dueMs = await findOldestDueMs(database, nowMs)
  const waiting = await countPendingDeliveries(database)
  const dueSeconds = dueMs === undefined ? 0 : (nowMs - dueMs) / 1_000
  if (dueSeconds <= dueSecondsMax) return [ok('webhooks', `${waiting} wait`)]
  return [
    warning(
      'webhooks',
      `one has been due for ${duration(dueSeconds)}: run a worker with SVC_MASTER_KEY, or more workers`,
    ),
  ]
}
