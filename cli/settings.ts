import path from 'node:path'
import { pathToFileURL } from 'node:url'
import type { z } from 'zod'
import { findPublishedStores } from '../store/embedded/data-folder.ts'
import type { TenantLimitName } from '../store/limits.ts'
import type { RateLimits } from '../throttle/throttle.ts'
import { defaultDataFolder, fields, tracesProtocol } from './settings/schema.ts'
import { parseSingleSignOn } from './settings/single-sign-on.ts'

/**
 * Reads the settings from the environment, or from a file `.env` in the working folder; the environment wins.
 * `settings/schema.ts` has each setting with its default.
 */

/** The addresses of the stores. */
export type StoreUrls = {
  clickhouseUrl: string
  /** See `store/clickhouse/cluster/layout.ts`. */
  clickhouseCluster?: string | undefined
  clickhouseInsertQuorum?: string | undefined
  /** The user that runs the SQL of callers; undefined when they may send none. */
  clickhouseSqlUrl?: string | undefined
  postgresUrl: string
  redisUrl: string | undefined
  objectsUrl: string
}

/** The settings that ClickHouse is opened with. */
export const toClickHouse = ({
  clickhouseUrl: url,
  clickhouseCluster: cluster,
  clickhouseInsertQuorum,
}: ClickHouseUrl) => ({
  url,
  cluster,
  insertQuorum: clickhouseInsertQuorum,
})

type ClickHouseUrl = Pick<StoreUrls, 'clickhouseUrl' | 'clickhouseCluster' | 'clickhouseInsertQuorum'>

export type Settings = ReturnType<typeof parseSettings>

type Environment = Record<string, string | undefined>

/**
 * Reads the settings from an environment.
 *
 * @throws Error that lists every wrong setting
 */
export function parseSettings(environment: Environment) {
  return parse(environment, [])
}

/**
 * Reads the settings of a command that needs the addresses of its stores.
 *
 * @throws Error that lists every wrong setting
 */
export function parseRoleSettings(environment: Environment) {
  return parse(environment, ['CLICKHOUSE_URL', 'POSTGRES_URL']) as Settings & StoreUrls
}

/**
 * Reads the settings of an operator's command. Its stores are those given by address, else those of the service that runs
 * on the data folder.
 *
 * @throws Error that lists every wrong setting
 */
export function parseOperatorSettings(environment: Environment) {
  return parseWithRunning(environment, ['CLICKHOUSE_URL', 'POSTGRES_URL']) as Settings & StoreUrls
}

/**
 * The same for a command that works on Postgres only.
 *
 * @throws Error that lists every wrong setting
 */
export function parsePostgresSettings(environment: Environment) {
  return parseWithRunning(environment, ['POSTGRES_URL']) as Settings & Pick<StoreUrls, 'postgresUrl'>
}

function parseWithRunning(environment: Environment, needed: string[]) {
  const areGiven = needed.every((name) => environment[name])
  const folder = path.resolve(environment.SVC_DATA_DIR || defaultDataFolder)
  const running = areGiven ? undefined : findPublishedStores(folder)
  if (running) return { ...parseSettings(environment), ...running }
  return parse(environment, needed, `must be set, or "svc up" must be running on the data folder ${folder}`)
}

function parse(
  environment: Environment,
  needed: string[],
  whatIsNeeded = 'must be set: only "svc up" starts embedded stores',
) {
  // A compose file passes an unset variable as an empty one.
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''))
  const parsed = fields.safeParse(given)
  const errors = (parsed.error?.issues ?? []).map((it) => `  ${it.path.join('.')}: ${it.message}`)
  for (const name of needed) {
    if (given[name] === undefined) errors.push(`  ${name}: ${whatIsNeeded}`)
  }
  if (given.CLICKHOUSE_CLUSTER !== undefined && given.CLICKHOUSE_URL === undefined) {
    errors.push('  CLICKHOUSE_CLUSTER: needs CLICKHOUSE_URL: an embedded ClickHouse has no cluster')
  }
  if (given.CLICKHOUSE_SQL_URL !== undefined && given.CLICKHOUSE_URL === undefined) {
    errors.push('  CLICKHOUSE_SQL_URL: needs CLICKHOUSE_URL: an embedded ClickHouse has such a user')
  }
  if (given.POSTGRES_READ_URL !== undefined && given.POSTGRES_URL === undefined) {
    errors.push('  POSTGRES_READ_URL: needs POSTGRES_URL: an embedded Postgres has no replica')
  }
  if (given.NODE_ENV === 'production' && given.POSTGRES_URL !== undefined && given.SVC_MASTER_KEY === undefined) {
    errors.push(
      '  SVC_MASTER_KEY: must be set when NODE_ENV is production: it encrypts the secrets in Postgres. Make one with ' +
        '"openssl rand -base64 32", and keep it: without it the secrets are lost',
    )
  }
  const singleSignOn = parseSingleSignOn({ text: given.SVC_SSO, file: given.SVC_SSO_FILE, environment: given })
  errors.push(...singleSignOn.errors.map((it) => `  ${it}`))
  if (singleSignOn.value.providers.length > 0 && given.SVC_PUBLIC_URL === undefined) {
    errors.push('  SVC_PUBLIC_URL: must be set when SVC_SSO has providers: they send people back to it')
  }
  if (!parsed.success || errors.length > 0) throw new Error(`These settings are wrong:\n${errors.join('\n')}`)
  const it = parsed.data
  return {
    host: it.SVC_HOST,
    port: it.SVC_PORT,
    metricsPort: it.SVC_METRICS_PORT,
    dataFolder: it.SVC_DATA_DIR,
    publicUrl: it.SVC_PUBLIC_URL?.replace(/\/+$/, ''),
    serviceUrls: it.SVC_URL.map((address) => address.replace(/\/+$/, '')),
    bootstrapApiKey: it.SVC_BOOTSTRAP_API_KEY,
    authHeaders: it.SVC_AUTH_HEADERS,
    corsOrigins: it.SVC_CORS_ORIGINS,
    masterKey: toKey(it.SVC_MASTER_KEY),
    previousMasterKey: toKey(it.SVC_MASTER_KEY_PREVIOUS),
    clickhouseUrl: it.CLICKHOUSE_URL,
    clickhouseCluster: it.CLICKHOUSE_CLUSTER,
    clickhouseInsertQuorum: it.CLICKHOUSE_INSERT_QUORUM,
    clickhouseSqlUrl: it.CLICKHOUSE_SQL_URL,
    postgresUrl: it.POSTGRES_URL,
    postgresReadUrl: it.POSTGRES_READ_URL,
    redisUrl: it.REDIS_URL,
    objectsUrl: it.OBJECTS_URL ?? pathToFileURL(path.resolve(it.SVC_DATA_DIR, 'objects')).href,
    /** True when OBJECTS_URL is not set. */
    objectsAreInDataFolder: it.OBJECTS_URL === undefined,
    backupUrl: it.SVC_BACKUP_URL,
    backupClickhouse: it.SVC_BACKUP_CLICKHOUSE,
    queuePrefix: it.SVC_QUEUE_PREFIX,
    queueShards: it.SVC_QUEUE_SHARDS,
    queueReplicas: it.SVC_QUEUE_REPLICAS,
    queueMax: { blocks: it.SVC_QUEUE_BLOCKS_MAX, bytes: it.SVC_QUEUE_BYTES_MAX },
    hasFastPath: it.SVC_FAST_PATH === 'on',
    commitWaitMs: it.SVC_COMMIT_WAIT_MS,
    rateLimits: {
      perExperiment: toRateLimits(it.SVC_POINTS_PER_MINUTE, it.SVC_VALUES_PER_MINUTE, it.SVC_EVENTS_PER_MINUTE),
      perKey: toRateLimits(it.SVC_KEY_POINTS_PER_MINUTE, it.SVC_KEY_VALUES_PER_MINUTE, it.SVC_KEY_EVENTS_PER_MINUTE),
    },
    tenantLimits: {
      workspace: onlyGiven({
        pointsPerMinute: it.SVC_WORKSPACE_POINTS_PER_MINUTE,
        fileBytesMax: it.SVC_WORKSPACE_BYTES_MAX,
        experimentsMax: it.SVC_WORKSPACE_EXPERIMENTS_MAX,
        streamsMax: it.SVC_WORKSPACE_STREAMS_MAX,
        exportsMax: it.SVC_WORKSPACE_EXPORTS_MAX,
        queriesMax: it.SVC_WORKSPACE_QUERIES_MAX,
      }),
      organization: {},
    },
    eventLeaseMs: it.SVC_EVENT_LEASE_MS,
    auditKeptDays: it.SVC_AUDIT_KEPT_DAYS,
    ingestionErrorsKeptDays: it.SVC_INGESTION_ERRORS_KEPT_DAYS,
    sqlLimits: {
      timeMsMax: it.SVC_SQL_SECONDS_MAX * 1_000,
      memoryBytesMax: it.SVC_SQL_MEMORY_BYTES_MAX,
      rowsReadMax: it.SVC_SQL_ROWS_READ_MAX,
      rowsMax: it.SVC_SQL_ROWS_MAX,
    },
    exportsPerUserMax: it.SVC_EXPORTS_PER_USER_MAX,
    seriesLimits: { metricNamesMax: it.SVC_METRIC_NAMES_MAX, pointsPerMetricMax: it.SVC_POINTS_PER_METRIC_MAX },
    assetLimits: {
      fileBytesMax: it.SVC_ASSET_BYTES_MAX,
      ofTypeMax: it.SVC_ASSETS_OF_TYPE_MAX,
    },
    sessionDays: it.SVC_SESSION_DAYS,
    singleSignOn: singleSignOn.value,
    identityPrivateHosts: new Set(it.SVC_SSO_PRIVATE_HOSTS),
    identityExtraCa: it.SVC_SSO_CA_FILE,
    opensBrowser: it.SVC_BROWSER === 'on',
    webhookPrivateHosts: new Set(it.SVC_WEBHOOK_PRIVATE_HOSTS),
    webhookExtraCa: it.SVC_WEBHOOK_CA_FILE,
    deletedKeptForMs: it.SVC_DELETED_KEPT_DAYS * 24 * 3_600_000,
    drainMs: it.SVC_DRAIN_SECONDS * 1_000,
    shutdownDelayMs: it.SVC_SHUTDOWN_DELAY_SECONDS * 1_000,
    logLevel: it.SVC_LOG_LEVEL,
    /** Undefined when traces are off. */
    tracing: toTracing(it),
  }
}

/** Traces are on if the variables name a collector or the exporter `otlp`, which has a default collector. */
function toTracing(it: z.output<typeof fields>) {
  const exporters = (it.OTEL_TRACES_EXPORTER ?? '').split(',').map((name) => name.trim())
  const isNamed = it.OTEL_EXPORTER_OTLP_ENDPOINT ?? it.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
  const isWanted = it.OTEL_TRACES_EXPORTER === undefined ? isNamed !== undefined : exporters.includes('otlp')
  if (!isWanted || it.OTEL_SDK_DISABLED?.toLowerCase() === 'true') return undefined
  return {
    sampler: it.OTEL_TRACES_SAMPLER,
    ratio: it.OTEL_TRACES_SAMPLER_ARG,
    queueSpansMax: it.OTEL_BSP_MAX_QUEUE_SIZE,
    everyMs: it.OTEL_BSP_SCHEDULE_DELAY,
    protocol: it.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL ?? it.OTEL_EXPORTER_OTLP_PROTOCOL ?? tracesProtocol,
  }
}

function toKey(text: string | undefined): Buffer | undefined {
  return text === undefined ? undefined : Buffer.from(text, text.length === 64 ? 'hex' : 'base64')
}

/** Without those that are not set. */
function onlyGiven(
  limits: Partial<Record<TenantLimitName, number | undefined>>,
): Partial<Record<TenantLimitName, number>> {
  return Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined))
}

function toRateLimits(points: number, values: number, events: number): RateLimits {
  return { metrics: points, systemMetrics: points, output: points, parameters: values, other: values, events }
}

/** Reads `.env` in the working folder, if it exists. It does not override the environment. */
export function loadEnvFile() {
  try {
    process.loadEnvFile('.env')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw new Error(`The file .env cannot be read: ${(error as Error).message}`, { cause: error })
  }
}
