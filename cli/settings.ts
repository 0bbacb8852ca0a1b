import { readFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { z } from 'zod'
import { findPublishedStores } from '../store/embedded/data-folder.ts'
import { isMistyped } from '../store/postgres/accounts/api-key.ts'
import { parseRedisAddress } from '../store/redis/address.ts'
import type { RateLimits } from '../throttle/throttle.ts'

/**
 * Every setting, with its default and who would change it. They come from the environment, or from a file `.env` where
 * the command is run; the environment wins.
 */

const port = z.coerce
  .number('must be a port')
  .int('must be a port')
  .min(0, 'must be a port')
  .max(65_535, 'must be a port')
const count = (least: number) =>
  z.coerce.number('must be a number').int('must be a whole number').min(least, `must be ${least} or more`)
const url = (schemes: string) =>
  z.url({ protocol: new RegExp(`^(${schemes})$`), error: `must be a URL (${schemes.replaceAll('|', ', ')}://...)` })

const objectsUrls = 'file:///folder, or s3://access:secret@host:port/bucket?region=us-east-1'

const defaultDataFolder = 'data'
const wrongMasterKey = 'must be 32 bytes in base64 or hex: make one with "openssl rand -base64 32"'

/** The one that traces are sent with. */
export const tracesProtocol = 'http/protobuf'
const defaultSampler = 'parentbased_always_on'
const samplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const

const fields = z.object({
  /** Where to listen. Anyone who wants others to reach the service sets 0.0.0.0. */
  SVC_HOST: z.string().default('127.0.0.1'),
  SVC_PORT: port.default(8080),
  /** Where the embedded stores keep their files. */
  SVC_DATA_DIR: z.string().default(defaultDataFolder),
  /** The address people reach the service at, when it stands behind a proxy: used in links. */
  SVC_PUBLIC_URL: url('https?').optional(),
  /** Where the processes that run are, for "svc doctor", separated by commas; without it, one at SVC_HOST and SVC_PORT. */
  SVC_URL: z
    .string()
    .default('')
    .transform((urls) => urls.split(/[\s,]+/).filter(Boolean))
    .pipe(z.array(url('https?'))),
  /** The first admin's key, for those who want to choose it: deployments by script, tests. */
  SVC_BOOTSTRAP_API_KEY: z
    .string()
    .min(16, 'must have 16 characters or more')
    .regex(/^[\x21-\x7e]+$/, 'must have visible ASCII characters only')
    .refine((key) => !isMistyped(key), 'looks like a key of svc, but its checksum is wrong: it was not copied whole')
    .optional(),
  /** Further header names that carry a key, for clients that use their own; separated by commas. */
  SVC_AUTH_HEADERS: z
    .string()
    .default('')
    .transform((names) =>
      names
        .toLowerCase()
        .split(/[\s,]+/)
        .filter(Boolean),
    ),
  /** The stores; without an address, `svc up` starts an embedded one. */
  CLICKHOUSE_URL: url('https?').optional(),
  /** The cluster that ClickHouse is of, as its `remote_servers` name it, when there are several servers. */
  CLICKHOUSE_CLUSTER: z
    .string()
    .regex(/^[\w-]+$/, 'must have letters, digits, _ and - only')
    .optional(),
  /** On how many replicas of a shard rows are before their job is done: a number, or most of them. */
  CLICKHOUSE_INSERT_QUORUM: z
    .string()
    .regex(/^(auto|[1-9]\d*)$/, 'must be a number, or auto')
    .default('auto'),
  POSTGRES_URL: url('postgres|postgresql').optional(),
  /** A streaming replica of it, which answers reads of many rows when it is as new as they ask for. */
  POSTGRES_READ_URL: url('postgres|postgresql').optional(),
  /** One Redis, a cluster or Sentinels: see `store/redis/address.ts`. */
  REDIS_URL: z.string().superRefine(checkRedisAddress).optional(),
  /** Where the bytes of assets are kept; without it, in the data folder. S3 is for several machines with an api. */
  OBJECTS_URL: z.url({ protocol: /^(file|s3)$/, error: `must be ${objectsUrls}` }).optional(),
  /** Where "svc backup" keeps backups, and "svc restore" finds them: as OBJECTS_URL. */
  SVC_BACKUP_URL: z.url({ protocol: /^(file|s3)$/, error: `must be ${objectsUrls}` }).optional(),
  /**
   * Where ClickHouse itself writes its part of a backup, when it is neither the embedded one nor to write into the bucket of
   * SVC_BACKUP_URL: a folder that it and the command both see, or a disk of its own. Its configuration must allow either.
   */
  SVC_BACKUP_CLICKHOUSE: z
    .string()
    .regex(/^(file:\/\/\/|disk:).+/, 'must be file:///folder, or disk:NAME')
    .optional(),
  /**
   * What secrets in Postgres are encrypted with: 32 bytes in base64 or hex. In production it is asked for from the first
   * day, so that no deployment runs without one until its first secret. `svc up` makes one in the data folder.
   */
  SVC_MASTER_KEY: z.string().refine(isKey, wrongMasterKey).optional(),
  /** The other master key, while it is changed: see "svc secrets rotate". */
  SVC_MASTER_KEY_PREVIOUS: z.string().refine(isKey, wrongMasterKey).optional(),
  /**
   * Receivers of webhooks that may be private, as host or host:port, separated by commas: who runs the service decides
   * which of its neighbours its users may reach. All others must be on the public internet.
   */
  SVC_WEBHOOK_PRIVATE_HOSTS: z
    .string()
    .default('')
    .transform((hosts) => hosts.split(/[\s,]+/).filter(Boolean))
    .pipe(z.array(z.string().transform(toPrivateHost))),
  /** A certificate authority that receivers of webhooks may have their certificate from, besides the public ones: PEM. */
  SVC_WEBHOOK_CA_FILE: z.string().transform(readCertificates).optional(),
  NODE_ENV: z.string().optional(),
  /** Lets several deployments share one Redis. */
  SVC_QUEUE_PREFIX: z
    .string()
    .regex(/^[\w-]+$/, 'must have letters, digits, _ and - only')
    .default('svc'),
  /** Into how many parts each queue is divided: as many as a Redis Cluster has masters, so that each has its share. */
  SVC_QUEUE_SHARDS: count(1).default(1),
  /**
   * On how many replicas of Redis a write is before it is acknowledged. By default on one where Redis may be replaced by a
   * replica, a cluster or one behind Sentinels; with 0 what a lost master acknowledged last is lost with it.
   */
  SVC_QUEUE_REPLICAS: count(0).optional(),
  /**
   * What one queue may hold, in blocks and in compressed bytes; over it writes are refused with 503. Ten minutes of
   * 10,000 single points a second are some 250,000 blocks and 100 MB. Whatever these say, writes are refused while Redis
   * uses more than three quarters of the memory it may use.
   */
  SVC_QUEUE_BLOCKS_MAX: count(1).default(1_000_000),
  SVC_QUEUE_BYTES_MAX: count(1).default(16 * 1024 ** 3),
  /** How long a write waits for company before it goes to the queue: more is cheaper, less is quicker. */
  SVC_COMMIT_WAIT_MS: count(0).default(2),
  /**
   * What one experiment, and one API key, may send a minute; each data type has its own count. Points are metric points,
   * points of resource usage and lines of output; values are parameters and all other writes. An admin can set others
   * for a workspace, a project or a key.
   */
  SVC_POINTS_PER_MINUTE: count(1).default(1_200_000),
  SVC_KEY_POINTS_PER_MINUTE: count(1).default(120_000_000),
  SVC_VALUES_PER_MINUTE: count(1).default(60_000),
  SVC_KEY_VALUES_PER_MINUTE: count(1).default(6_000_000),
  /** Events (and labels that come by themselves) that one monitored model, and one API key, may send a minute. */
  SVC_EVENTS_PER_MINUTE: count(1).default(1_200_000),
  SVC_KEY_EVENTS_PER_MINUTE: count(1).default(120_000_000),
  /**
   * How long an event may be on its way to the queue before another request with its prediction id takes its place: longer
   * than the queue ever takes, for what is taken over has to be sent again; shorter, and clients of a process that was
   * killed wait less.
   */
  SVC_EVENT_LEASE_MS: count(1).default(10_000),
  /** How long it can be read what was wrong with events. */
  SVC_INGESTION_ERRORS_KEPT_DAYS: count(1).default(7),
  /** How many metric names an experiment may have, and how many points each; what is beyond is dropped. */
  SVC_METRIC_NAMES_MAX: count(1).default(50_000),
  SVC_POINTS_PER_METRIC_MAX: count(1).default(10_000_000),
  /** What one asset may have in bytes: more than 78 GiB would have too many parts for S3. */
  SVC_ASSET_BYTES_MAX: count(1).default(64 * 1024 ** 3),
  /**
   * How many assets an experiment may have of each type that clients log in loops: images, text samples, histograms,
   * model elements, curves, notebooks, embeddings and videos.
   */
  SVC_ASSETS_OF_TYPE_MAX: count(1).default(100_000),
  /** What the assets of a workspace may have together, in bytes; without it, as much as the object store takes. */
  SVC_WORKSPACE_BYTES_MAX: count(1).optional(),
  /** How long a deleted experiment can be restored; then it is gone everywhere. */
  SVC_DELETED_KEPT_DAYS: count(0).default(30),
  /** How long a stopping process may take to finish what it has begun. */
  SVC_DRAIN_SECONDS: count(1).default(25),
  /**
   * How long a process that was told to stop goes on taking requests, while `/readyz` says no and every answer ends its
   * connection: what balancers need to notice. The time to drain begins afterwards.
   */
  SVC_SHUTDOWN_DELAY_SECONDS: count(0).default(0),
  SVC_LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).optional(),
  /**
   * Where traces go, by the standard variables of OpenTelemetry; those that are not here (headers, time-outs, certificates,
   * attributes of the resource) its libraries read themselves. A platform may set them for everything it runs, so what does
   * not fit is no reason not to start.
   */
  OTEL_SDK_DISABLED: z.string().optional(),
  OTEL_TRACES_EXPORTER: z.string().optional(),
  OTEL_EXPORTER_OTLP_ENDPOINT: z.string().optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: z.string().optional(),
  OTEL_EXPORTER_OTLP_PROTOCOL: z.string().optional(),
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: z.string().optional(),
  OTEL_TRACES_SAMPLER: z.enum(samplers).catch(defaultSampler).default(defaultSampler),
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).catch(1).default(1),
  OTEL_BSP_MAX_QUEUE_SIZE: count(1).catch(2_048).default(2_048),
  OTEL_BSP_SCHEDULE_DELAY: count(1).catch(5_000).default(5_000),
})

/** Where the stores of a process are. */
export type StoreUrls = {
  clickhouseUrl: string
  /** The cluster it is of, and how inserts are done there; see `store/clickhouse/cluster/layout.ts`. */
  clickhouseCluster?: string | undefined
  clickhouseInsertQuorum?: string | undefined
  postgresUrl: string
  redisUrl: string | undefined
  objectsUrl: string
}

/** How ClickHouse is opened, of what the settings say. */
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
 * @throws Error that lists every fault at once
 */
export function parseSettings(environment: Environment) {
  return parse(environment, [])
}

/**
 * Reads the settings of a command that works on given stores only: the addresses must be there.
 *
 * @throws Error that lists every fault at once
 */
export function parseRoleSettings(environment: Environment) {
  return parse(environment, ['CLICKHOUSE_URL', 'POSTGRES_URL']) as Settings & StoreUrls
}

/**
 * Reads the settings of a command that looks after the stores, whoever started them: those given by address, else those
 * of the service that runs on the data folder.
 *
 * @throws Error that lists every fault at once
 */
export function parseOperatorSettings(environment: Environment) {
  return parseReached(environment, ['CLICKHOUSE_URL', 'POSTGRES_URL']) as Settings & StoreUrls
}

/**
 * The same for a command that works on Postgres only.
 *
 * @throws Error that lists every fault at once
 */
export function parsePostgresSettings(environment: Environment) {
  return parseReached(environment, ['POSTGRES_URL']) as Settings & Pick<StoreUrls, 'postgresUrl'>
}

function parseReached(environment: Environment, needed: string[]) {
  const areGiven = needed.every((name) => environment[name])
  const folder = path.resolve(environment.SVC_DATA_DIR || defaultDataFolder)
  const running = areGiven ? undefined : findPublishedStores(folder)
  if (running) return { ...parseSettings(environment), ...running }
  return parse(environment, needed, `must be set, or "svc up" must be running on the data folder ${folder}`)
}

function parse(
  environment: Environment,
  needed: string[],
  whatIsNeeded = 'must be set: only "svc up" starts stores by itself',
) {
  // An empty variable is what a compose file makes of one that was not given.
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''))
  const parsed = fields.safeParse(given)
  const faults = (parsed.error?.issues ?? []).map((it) => `  ${it.path.join('.')}: ${it.message}`)
  for (const name of needed) {
    if (given[name] === undefined) faults.push(`  ${name}: ${whatIsNeeded}`)
  }
  if (given.CLICKHOUSE_CLUSTER !== undefined && given.CLICKHOUSE_URL === undefined) {
    faults.push(
      '  CLICKHOUSE_CLUSTER: needs CLICKHOUSE_URL, the address of its servers: an embedded ClickHouse is of no cluster',
    )
  }
  if (given.POSTGRES_READ_URL !== undefined && given.POSTGRES_URL === undefined) {
    faults.push(
      '  POSTGRES_READ_URL: needs POSTGRES_URL, the address of its primary: an embedded Postgres has no replica',
    )
  }
  if (given.NODE_ENV === 'production' && given.POSTGRES_URL !== undefined && given.SVC_MASTER_KEY === undefined) {
    faults.push(
      '  SVC_MASTER_KEY: must be set when NODE_ENV is production: secrets in Postgres are encrypted with it. Make one ' +
        'with "openssl rand -base64 32", and keep it: without it they cannot be read',
    )
  }
  if (!parsed.success || faults.length > 0) throw new Error(`These settings are wrong:\n${faults.join('\n')}`)
  const it = parsed.data
  return {
    host: it.SVC_HOST,
    port: it.SVC_PORT,
    dataFolder: it.SVC_DATA_DIR,
    publicUrl: it.SVC_PUBLIC_URL?.replace(/\/+$/, ''),
    serviceUrls: it.SVC_URL.map((address) => address.replace(/\/+$/, '')),
    bootstrapApiKey: it.SVC_BOOTSTRAP_API_KEY,
    authHeaders: it.SVC_AUTH_HEADERS,
    masterKey: toKey(it.SVC_MASTER_KEY),
    previousMasterKey: toKey(it.SVC_MASTER_KEY_PREVIOUS),
    clickhouseUrl: it.CLICKHOUSE_URL,
    clickhouseCluster: it.CLICKHOUSE_CLUSTER,
    clickhouseInsertQuorum: it.CLICKHOUSE_INSERT_QUORUM,
    postgresUrl: it.POSTGRES_URL,
    postgresReadUrl: it.POSTGRES_READ_URL,
    redisUrl: it.REDIS_URL,
    objectsUrl: it.OBJECTS_URL ?? pathToFileURL(path.resolve(it.SVC_DATA_DIR, 'objects')).href,
    /** True when nobody said where assets are to be kept. */
    objectsAreInDataFolder: it.OBJECTS_URL === undefined,
    backupUrl: it.SVC_BACKUP_URL,
    backupClickhouse: it.SVC_BACKUP_CLICKHOUSE,
    queuePrefix: it.SVC_QUEUE_PREFIX,
    queueShards: it.SVC_QUEUE_SHARDS,
    queueReplicas: it.SVC_QUEUE_REPLICAS,
    queueMax: { blocks: it.SVC_QUEUE_BLOCKS_MAX, bytes: it.SVC_QUEUE_BYTES_MAX },
    commitWaitMs: it.SVC_COMMIT_WAIT_MS,
    rateLimits: {
      perExperiment: toRateLimits(it.SVC_POINTS_PER_MINUTE, it.SVC_VALUES_PER_MINUTE, it.SVC_EVENTS_PER_MINUTE),
      perKey: toRateLimits(it.SVC_KEY_POINTS_PER_MINUTE, it.SVC_KEY_VALUES_PER_MINUTE, it.SVC_KEY_EVENTS_PER_MINUTE),
    },
    eventLeaseMs: it.SVC_EVENT_LEASE_MS,
    ingestionErrorsKeptDays: it.SVC_INGESTION_ERRORS_KEPT_DAYS,
    seriesLimits: { metricNamesMax: it.SVC_METRIC_NAMES_MAX, pointsPerMetricMax: it.SVC_POINTS_PER_METRIC_MAX },
    assetLimits: {
      fileBytesMax: it.SVC_ASSET_BYTES_MAX,
      ofTypeMax: it.SVC_ASSETS_OF_TYPE_MAX,
      workspaceBytesMax: it.SVC_WORKSPACE_BYTES_MAX,
    },
    webhookPrivateHosts: new Set(it.SVC_WEBHOOK_PRIVATE_HOSTS),
    webhookExtraCa: it.SVC_WEBHOOK_CA_FILE,
    deletedKeptForMs: it.SVC_DELETED_KEPT_DAYS * 24 * 3_600_000,
    drainMs: it.SVC_DRAIN_SECONDS * 1_000,
    shutdownDelayMs: it.SVC_SHUTDOWN_DELAY_SECONDS * 1_000,
    logLevel: it.SVC_LOG_LEVEL,
    /** Undefined when nobody wants traces. */
    tracing: toTracing(it),
  }
}

/** Traces are on where the standard variables name a collector, or ask for the exporter that has one by default. */
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

function checkRedisAddress(url: string, context: z.RefinementCtx): void {
  try {
    parseRedisAddress(url)
  } catch (error) {
    context.addIssue({ code: 'custom', message: (error as Error).message })
  }
}

/** In the spelling that URLs come out in; the port only where one was given. */
function toPrivateHost(text: string, context: z.RefinementCtx): string {
  const url = URL.parse(`https://${text}`)
  const isHost = url && url.username === '' && url.pathname === '/' && url.search === '' && url.hash === ''
  if (!isHost || /[*/@?#]/.test(text)) {
    context.addIssue({ code: 'custom', message: `must list hosts, or host:port, and not ${JSON.stringify(text)}` })
    return z.NEVER
  }
  return /:\d+$/.test(text.replace(/^\[[^\]]*\]/, '')) ? `${url.hostname}:${url.port || '443'}` : url.hostname
}

function readCertificates(file: string, context: z.RefinementCtx): string {
  try {
    const pem = readFileSync(file, 'utf8')
    if (pem.includes('-----BEGIN CERTIFICATE-----')) return pem
    context.addIssue({ code: 'custom', message: 'must be a file of certificates in PEM' })
  } catch (error) {
    context.addIssue({ code: 'custom', message: `cannot be read: ${(error as Error).message}` })
  }
  return z.NEVER
}

function isKey(text: string): boolean {
  return /^[0-9a-f]{64}$/i.test(text) || /^[A-Za-z0-9+/]{43}=$/.test(text)
}

function toKey(text: string | undefined): Buffer | undefined {
  return text === undefined ? undefined : Buffer.from(text, text.length === 64 ? 'hex' : 'base64')
}

function toRateLimits(points: number, values: number, events: number): RateLimits {
  return { metrics: points, systemMetrics: points, output: points, parameters: values, other: values, events }
}

/** Reads `.env` where the command is run, if there is one. What the environment has already stays. */
export function loadEnvFile() {
  try {
    process.loadEnvFile('.env')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw new Error(`The file .env cannot be read: ${(error as Error).message}`, { cause: error })
  }
}
