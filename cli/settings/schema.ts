import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { isMistyped } from '../../store/postgres/accounts/api-key.ts'
import { parseRedisAddress } from '../../store/redis/address.ts'

/**
 * Every setting: its type, its default, what it does, and who would change it. `docs/settings.md` is made from this file
 * (`npm run --silent svc -- settings --markdown > docs/settings.md`).
 */

/** The metadata of a setting. */
export type About = {
  type: string
  description: string
  /** Who would change it, and why. */
  change: string
  /** The effect when it is not set, for a setting without a default. */
  unset?: string
  /** True when its value must never be printed. */
  isSecret?: boolean
}

const about = (it: About) => it

const port = z.coerce
  .number('must be a port')
  .int('must be a port')
  .min(0, 'must be a port')
  .max(65_535, 'must be a port')
const count = (least: number) =>
  z.coerce.number('must be a number').int('must be a whole number').min(least, `must be ${least} or more`)
const url = (schemes: string) =>
  z.url({ protocol: new RegExp(`^(${schemes})$`), error: `must be a URL (${schemes.replaceAll('|', ', ')}://...)` })
const name = z.string().regex(/^[\w-]+$/, 'must have letters, digits, _ and - only')

const privateHosts = z
  .string()
  .default('')
  .transform((hosts) => hosts.split(/[\s,]+/).filter(Boolean))
  .pipe(z.array(z.string().transform(toPrivateHost)))
const objectsUrls = 'file:///folder, or s3://access:secret@host:port/bucket?region=us-east-1'

export const defaultDataFolder = 'data'
const wrongMasterKey = 'must be 32 bytes in base64 or hex: make one with "openssl rand -base64 32"'

/** The only protocol that traces are sent with. */
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

const addresses = {
  SVC_HOST: z
    .string()
    .default('127.0.0.1')
    .meta(
      about({
        type: 'address',
        description: 'The address to listen on.',
        change: 'Anyone who wants other machines to reach the service: `0.0.0.0`.',
      }),
    ),
  SVC_PORT: port
    .default(8080)
    .meta(about({ type: 'port', description: 'The port to listen on.', change: 'Several processes on one machine.' })),
  SVC_METRICS_PORT: port.optional().meta(
    about({
      type: 'port',
      description: 'A port for `/metrics` alone; the other one then has none.',
      change: 'Anyone whose proxy shows all paths of the service to the world.',
      unset: 'on the port of the service',
    }),
  ),
  SVC_PUBLIC_URL: url('https?')
    .optional()
    .meta(
      about({
        type: 'URL',
        description: 'The address that links use.',
        change: 'Anyone who runs the service behind a proxy.',
        unset: '`SVC_HOST` and `SVC_PORT`',
      }),
    ),
  SVC_URL: z
    .string()
    .default('')
    .transform((urls) => urls.split(/[\s,]+/).filter(Boolean))
    .pipe(z.array(url('https?')))
    .meta(
      about({
        type: 'URLs, separated by commas',
        description: 'The running processes that `svc doctor` asks.',
        change: 'Anyone who runs several processes.',
        unset: '`SVC_HOST` and `SVC_PORT`',
      }),
    ),
  SVC_AUTH_HEADERS: z
    .string()
    .default('')
    .transform((names) =>
      names
        .toLowerCase()
        .split(/[\s,]+/)
        .filter(Boolean),
    )
    .meta(
      about({
        type: 'header names, separated by commas',
        description: 'More request headers that may carry an API key.',
        change: 'Anyone whose clients send the key in a header of their own.',
      }),
    ),
  SVC_CORS_ORIGINS: z
    .string()
    .default('')
    .transform((origins) => origins.split(/[\s,]+/).filter(Boolean))
    .superRefine((origins, context) => {
      for (const it of origins) if (it !== '*') checkOrigin(it, context)
    })
    .meta(
      about({
        type: 'origins, separated by commas, or `*`',
        description:
          'The origins (`https://host:port`) of other pages that may call the service from a browser, with a key: ' +
          '[security](security.md#pages-of-other-origins).',
        change: 'Anyone who logs from pages of their own, or from notebooks that run in a browser.',
      }),
    ),
}

const stores = {
  SVC_DATA_DIR: z
    .string()
    .default(defaultDataFolder)
    .meta(
      about({
        type: 'folder',
        description: 'Where the embedded stores keep their files.',
        change: 'Anyone who runs `svc up` with a data disk.',
      }),
    ),
  CLICKHOUSE_URL: url('https?')
    .optional()
    .meta(
      about({
        type: 'URL',
        description: 'ClickHouse, by its HTTP interface: `http://user:password@host:8123/svc`.',
        change: 'Production. Every role but `svc up` needs it.',
        unset: 'an embedded server (`svc up`)',
      }),
    ),
  CLICKHOUSE_CLUSTER: name.optional().meta(
    about({
      type: 'name',
      description: 'The ClickHouse cluster, as `remote_servers` names it.',
      change: 'Anyone with several ClickHouse servers: [scaling](scaling.md#clickhouse-cluster).',
      unset: 'one server',
    }),
  ),
  CLICKHOUSE_INSERT_QUORUM: z
    .string()
    .regex(/^(auto|[1-9]\d*)$/, 'must be a number, or auto')
    .default('auto')
    .meta(
      about({
        type: 'number, or `auto`',
        description: 'How many replicas of a shard must have the rows before a job is done. `auto` means a majority.',
        change: 'Anyone with a ClickHouse cluster.',
      }),
    ),
  CLICKHOUSE_SQL_URL: url('https?')
    .optional()
    .meta(
      about({
        type: 'URL',
        description:
          'The same ClickHouse with the user that runs the SQL and the filters of callers, who may read views of single models ' +
          'only: [how to make it](deploying.md#let-callers-send-sql).',
        change: 'Production, for custom metrics and filters.',
        unset: 'callers can send no SQL (an embedded server has such a user)',
      }),
    ),
  POSTGRES_URL: url('postgres|postgresql')
    .optional()
    .meta(
      about({
        type: 'URL',
        description: 'The primary of Postgres: `postgres://user:password@host/svc`.',
        change: 'Production. Every role but `svc up` needs it.',
        unset: 'an embedded server (`svc up`)',
      }),
    ),
  POSTGRES_READ_URL: url('postgres|postgresql')
    .optional()
    .meta(
      about({
        type: 'URL',
        description: 'A streaming replica of Postgres. It answers large reads once it has replayed what they need.',
        change: 'Anyone whose primary is busy with reads: [scaling](scaling.md#postgres).',
        unset: 'the primary answers every read',
      }),
    ),
  REDIS_URL: z
    .string()
    .superRefine(checkRedisAddress)
    .optional()
    .meta(
      about({
        type: 'URL',
        description:
          'Redis for the queue and for shared rate limits: `redis://`, `redis+cluster://` or `redis+sentinel://`.',
        change: 'Production: [scaling](scaling.md#redis-cluster-and-sentinel).',
        unset: 'the queue is in Postgres',
      }),
    ),
  OBJECTS_URL: z
    .url({ protocol: /^(file|s3)$/, error: `must be ${objectsUrls}` })
    .optional()
    .meta(
      about({
        type: 'URL',
        description:
          'Where the bytes of assets are: `file:///folder`, or `s3://access:secret@host:port/bucket?region=..&tls=false`.',
        change: 'Anyone who runs an api on several machines.',
        unset: '`objects` in the data folder',
      }),
    ),
  SVC_BACKUP_URL: z
    .url({ protocol: /^(file|s3)$/, error: `must be ${objectsUrls}` })
    .optional()
    .meta(
      about({
        type: 'URL',
        description: 'Where `svc backup` keeps backups. The forms are those of `OBJECTS_URL`.',
        change: 'Everyone with data to keep: [backups](backups.md).',
        unset: '`--to` or `--from` is required',
      }),
    ),
  SVC_BACKUP_CLICKHOUSE: z
    .string()
    .regex(/^((file:\/\/\/|disk:).+|rows)$/, 'must be file:///folder, disk:NAME, or rows')
    .optional()
    .meta(
      about({
        type: '`file:///folder`, `disk:NAME`, or `rows`',
        description:
          'Where a ClickHouse server writes its part of a backup; its configuration must allow that place. `rows`: the command ' +
          'reads the rows instead, as it always does of a cluster.',
        change:
          'Anyone with a ClickHouse server that does not write into the backup bucket, or who moves to a cluster.',
        unset: 'the bucket of `SVC_BACKUP_URL`; for an embedded server the data folder; for a cluster `rows`',
      }),
    ),
}

const security = {
  SVC_BOOTSTRAP_API_KEY: z
    .string()
    .min(16, 'must have 16 characters or more')
    .regex(/^[\x21-\x7e]+$/, 'must have visible ASCII characters only')
    .refine((key) => !isMistyped(key), 'looks like a key of svc, but its checksum is wrong: part of it is missing')
    .optional()
    .meta(
      about({
        type: '16 characters or more',
        description: 'The API key of the first admin. Set later, it becomes one more key of that admin.',
        change: 'Deployments by script, and tests.',
        unset: 'a random key, printed once',
        isSecret: true,
      }),
    ),
  SVC_MASTER_KEY: z
    .string()
    .refine(isKey, wrongMasterKey)
    .optional()
    .meta(
      about({
        type: '32 bytes in base64 or hex',
        description: 'Encrypts the secrets in Postgres. Required when `NODE_ENV` is `production`.',
        change: 'Production: `openssl rand -base64 32`. Keep a copy with your other secrets.',
        unset: '`svc up` makes one in the data folder',
        isSecret: true,
      }),
    ),
  SVC_MASTER_KEY_PREVIOUS: z
    .string()
    .refine(isKey, wrongMasterKey)
    .optional()
    .meta(
      about({
        type: '32 bytes in base64 or hex',
        description: 'The old master key, during a [rotation](deploying.md#change-the-master-key).',
        change: 'Anyone who replaces the master key.',
        unset: 'no rotation',
        isSecret: true,
      }),
    ),
  SVC_SESSION_DAYS: count(1)
    .default(30)
    .meta(
      about({
        type: 'days',
        description: 'How long a browser stays signed in. Ending the session, or its API key, signs it out at once.',
        change: 'Operators whose rules ask for shorter sessions.',
      }),
    ),
  SVC_BROWSER: z
    .enum(['on', 'off'])
    .default('on')
    .meta(
      about({
        type: 'on, off',
        description:
          '`svc up` opens the sign-in link in a browser, if it runs in a terminal on a machine with a screen. With off it only prints the link, as `svc up --no-browser` does.',
        change: 'Anyone who starts the service often.',
      }),
    ),
  SVC_WEBHOOK_PRIVATE_HOSTS: privateHosts.meta(
    about({
      type: 'host or host:port, separated by commas',
      description: 'Private webhook receivers that the service may connect to. All others must have public addresses.',
      change: 'Operators with receivers inside their network.',
    }),
  ),
  SVC_WEBHOOK_CA_FILE: z
    .string()
    .transform(readCertificates)
    .optional()
    .meta(
      about({
        type: 'PEM file',
        description: 'A certificate authority to trust for webhook receivers, besides the public ones.',
        change: 'Operators with a certificate authority of their own.',
        unset: 'public authorities only',
      }),
    ),
  NODE_ENV: z
    .string()
    .optional()
    .meta(
      about({
        type: 'text',
        description: '`production` makes `SVC_MASTER_KEY` required.',
        change: 'Production. Our images set it.',
        unset: 'not production',
      }),
    ),
}

const signingIn = {
  SVC_SSO: z
    .string()
    .optional()
    .meta(
      about({
        type: 'JSON',
        description:
          'Who signs people in besides keys (OpenID Connect providers, a reverse proxy), and what their groups give: ' +
          '[single sign-on](single-sign-on.md). It holds no secret.',
        change: 'Organizations.',
        unset: 'no single sign-on',
      }),
    ),
  SVC_SSO_FILE: z
    .string()
    .optional()
    .meta(
      about({
        type: 'JSON file',
        description: 'The same in a file.',
        change: 'Organizations that mount files.',
        unset: '`SVC_SSO`',
      }),
    ),
  SVC_SSO_PRIVATE_HOSTS: privateHosts.meta(
    about({
      type: 'host or host:port, separated by commas',
      description:
        'Identity providers at private addresses, or without TLS. All others must have public addresses and TLS.',
      change: 'Operators with a provider inside their network.',
    }),
  ),
  SVC_SSO_CA_FILE: z
    .string()
    .transform(readCertificates)
    .optional()
    .meta(
      about({
        type: 'PEM file',
        description: 'A certificate authority to trust for identity providers, besides the public ones.',
        change: 'Operators with a certificate authority of their own.',
        unset: 'public authorities only',
      }),
    ),
}

const queue = {
  SVC_QUEUE_PREFIX: name.default('svc').meta(
    about({
      type: 'name',
      description: 'Prefix of all queue names.',
      change: 'Deployments that share one Redis.',
    }),
  ),
  SVC_QUEUE_SHARDS: count(1)
    .default(1)
    .meta(
      about({
        type: 'number',
        description: 'Parts of each queue. They spread over the masters of a Redis Cluster.',
        change: 'Anyone with a Redis Cluster: the number of its masters.',
      }),
    ),
  SVC_QUEUE_REPLICAS: count(0)
    .optional()
    .meta(
      about({
        type: 'number',
        description:
          'Redis replicas that must have a write before it is acknowledged. With 0, a failover can lose the last writes.',
        change: 'Anyone with a Redis Cluster or Sentinels.',
        unset: '1 with a cluster or Sentinels, else 0',
      }),
    ),
  // Ten minutes of 10,000 single points a second are some 250,000 blocks and 100 MB.
  SVC_QUEUE_BLOCKS_MAX: count(1)
    .default(1_000_000)
    .meta(
      about({
        type: 'blocks',
        description:
          'The most blocks a queue may hold. Above it writes get 503. They also get 503 while Redis uses over 75% of its memory.',
        change: 'Anyone who has memory for a longer outage of ClickHouse.',
      }),
    ),
  SVC_QUEUE_BYTES_MAX: count(1)
    .default(16 * 1024 ** 3)
    .meta(
      about({
        type: 'bytes',
        description: 'The most compressed bytes a queue may hold. Above it writes get 503.',
        change: 'Anyone who has memory for a longer outage of ClickHouse.',
      }),
    ),
  SVC_COMMIT_WAIT_MS: count(0)
    .default(2)
    .meta(
      about({
        type: 'ms',
        description: 'Group-commit delay. A longer delay costs less CPU per point; a shorter one answers sooner.',
        change: 'Anyone who measured that it helps.',
      }),
    ),
  SVC_FAST_PATH: z
    .enum(['on', 'off'])
    .default('on')
    .meta(
      about({
        type: 'on, off',
        description:
          'Reads plain writes straight from the socket, which costs less CPU. With off, Node reads every request; answers are the same.',
        change: 'Anyone who suspects the fast path.',
      }),
    ),
}

const limits = {
  SVC_POINTS_PER_MINUTE: count(1)
    .default(1_200_000)
    .meta(
      about({
        type: 'points per minute',
        description:
          'Limit of one experiment, for each of metric points, resource usage and output lines. Admins can override it.',
        change: 'Operators whose runs log more.',
      }),
    ),
  SVC_KEY_POINTS_PER_MINUTE: count(1)
    .default(120_000_000)
    .meta(
      about({
        type: 'points per minute',
        description: 'The same limit for one API key.',
        change: 'Operators whose users share a key.',
      }),
    ),
  SVC_VALUES_PER_MINUTE: count(1)
    .default(60_000)
    .meta(
      about({
        type: 'writes per minute',
        description: 'Limit of one experiment for parameters, and for all other writes.',
        change: 'Operators whose runs log many parameters.',
      }),
    ),
  SVC_KEY_VALUES_PER_MINUTE: count(1)
    .default(6_000_000)
    .meta(
      about({
        type: 'writes per minute',
        description: 'The same limit for one API key.',
        change: 'Operators whose users share a key.',
      }),
    ),
  SVC_EVENTS_PER_MINUTE: count(1)
    .default(1_200_000)
    .meta(
      about({
        type: 'events per minute',
        description: 'Limit of one monitored model for events, and for labels sent by themselves.',
        change: 'Operators whose models predict more often.',
      }),
    ),
  SVC_KEY_EVENTS_PER_MINUTE: count(1)
    .default(120_000_000)
    .meta(
      about({
        type: 'events per minute',
        description: 'The same limit for one API key.',
        change: 'Operators whose models share a key.',
      }),
    ),
  SVC_EXPORTS_PER_USER_MAX: count(1)
    .default(1)
    .meta(
      about({
        type: 'number',
        description: 'How many exports of a user an api process runs at a time; a further one gets HTTP 429.',
        change: 'Anyone whose programs export several projects at a time under one name.',
      }),
    ),
  SVC_SQL_SECONDS_MAX: count(1)
    .default(10)
    .meta(
      about({
        type: 'seconds',
        description: 'How long one statement of SQL that a caller sends may run.',
        change: 'Anyone with models of very many events.',
      }),
    ),
  SVC_SQL_MEMORY_BYTES_MAX: count(1)
    .default(1_073_741_824)
    .meta(
      about({
        type: 'bytes',
        description: 'How much memory it may use in ClickHouse.',
        change: 'Anyone with models of very many events.',
      }),
    ),
  SVC_SQL_ROWS_READ_MAX: count(1)
    .default(200_000_000)
    .meta(
      about({
        type: 'number',
        description: 'How many stored rows it may read: one for each event, and one for each value that it names.',
        change: 'Anyone with models of very many events.',
      }),
    ),
  SVC_SQL_ROWS_MAX: count(1)
    .default(50_000)
    .meta(
      about({
        type: 'number',
        description: 'How many rows an answer to it has at most.',
        change: 'Anyone who exports predictions in larger pages.',
      }),
    ),
  SVC_METRIC_NAMES_MAX: count(1)
    .default(50_000)
    .meta(
      about({
        type: 'names',
        description: 'The most metric names an experiment may have. Points of further names are dropped and counted.',
        change: 'Operators whose runs log more metrics.',
      }),
    ),
  SVC_POINTS_PER_METRIC_MAX: count(1)
    .default(10_000_000)
    .meta(
      about({
        type: 'points',
        description: 'The most points a metric of an experiment may have. Further points are dropped and counted.',
        change: 'Operators whose runs log longer.',
      }),
    ),
  SVC_ASSET_BYTES_MAX: count(1)
    .default(64 * 1024 ** 3)
    .meta(
      about({
        type: 'bytes',
        description: 'The largest asset; in S3 at most 78 GiB.',
        change: 'Operators with larger files.',
      }),
    ),
  SVC_ASSETS_OF_TYPE_MAX: count(1)
    .default(100_000)
    .meta(
      about({
        type: 'assets',
        description:
          'The most assets of one type in an experiment, for the types that clients log in loops (images, text samples, ' +
          'histograms, model elements, curves, notebooks, embeddings, videos).',
        change: 'Operators whose runs log more images.',
      }),
    ),
  SVC_WORKSPACE_POINTS_PER_MINUTE: count(1)
    .optional()
    .meta(
      about({
        type: 'points per minute',
        description:
          'Limit of one workspace for the points, lines and events of all its experiments and models together. Admins can override ' +
          'this and the other limits of workspaces: [operating](operating.md#limits).',
        change: 'Operators who share the service between teams.',
        unset: 'no limit',
      }),
    ),
  SVC_WORKSPACE_EXPERIMENTS_MAX: count(1)
    .optional()
    .meta(
      about({
        type: 'experiments',
        description: 'The most experiments that a workspace may have.',
        change: 'Operators who share the service between teams.',
        unset: 'no limit',
      }),
    ),
  SVC_WORKSPACE_STREAMS_MAX: count(1)
    .default(50)
    .meta(
      about({
        type: 'number',
        description: 'How many live streams of a workspace an api process has open; a further one gets HTTP 429.',
        change: 'Operators with many people in one workspace.',
      }),
    ),
  SVC_WORKSPACE_EXPORTS_MAX: count(1)
    .default(8)
    .meta(
      about({
        type: 'number',
        description: 'How many exports of a workspace an api process runs at a time; a further one gets HTTP 429.',
        change: 'Operators with many people in one workspace.',
      }),
    ),
  SVC_WORKSPACE_QUERIES_MAX: count(1)
    .default(8)
    .meta(
      about({
        type: 'number',
        description:
          'How many queries of a workspace an api process runs at a time in ClickHouse. Further ones wait for their turn, for half a ' +
          'minute at most.',
        change: 'Operators with a large ClickHouse and few workspaces.',
      }),
    ),
  SVC_WORKSPACE_BYTES_MAX: count(1)
    .optional()
    .meta(
      about({
        type: 'bytes',
        description: 'The most bytes of assets in one workspace.',
        change: 'Operators who share one object store between teams.',
        unset: 'no limit',
      }),
    ),
}

const retention = {
  SVC_DELETED_KEPT_DAYS: count(0)
    .default(30)
    .meta(
      about({
        type: 'days',
        description: 'How long a deleted project or experiment can be restored. Then it is deleted everywhere.',
        change: 'Operators who must delete sooner.',
      }),
    ),
  SVC_AUDIT_KEPT_DAYS: count(1)
    .optional()
    .meta(
      about({
        type: 'days',
        description:
          'How long entries of the audit log are kept. The remaining ones [can still be verified](security.md#audit-log).',
        change: 'Operators who must delete them.',
        unset: 'for ever',
      }),
    ),
  SVC_INGESTION_ERRORS_KEPT_DAYS: count(1)
    .default(7)
    .meta(
      about({
        type: 'days',
        description: 'How long errors of rejected events can be read.',
        change: 'Operators who look at them less often.',
      }),
    ),
  // Must exceed the longest write to the queue, or a claim could be taken over while its event is still on its way.
  SVC_EVENT_LEASE_MS: count(1)
    .default(10_000)
    .meta(
      about({
        type: 'ms',
        description:
          'A stale claim on a prediction id expires after this time. It must be longer than a write to the queue ever takes.',
        change: 'Usually nobody. A shorter time makes clients wait less after a process was killed.',
      }),
    ),
}

const processes = {
  SVC_DRAIN_SECONDS: count(1)
    .default(25)
    .meta(
      about({
        type: 's',
        description: 'How long a process may take after SIGTERM to finish open work.',
        change: 'Operators whose supervisor waits longer or shorter.',
      }),
    ),
  SVC_SHUTDOWN_DELAY_SECONDS: count(0)
    .default(0)
    .meta(
      about({
        type: 's',
        description: 'How long a process still serves after SIGTERM, while `/readyz` answers 503. Then it drains.',
        change: 'Anyone behind a load balancer: longer than it takes to notice.',
      }),
    ),
  SVC_LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .optional()
    .meta(
      about({
        type: '`fatal`, `error`, `warn`, `info`, `debug`, `trace` or `silent`',
        description: 'The least severe log lines to print. `debug` adds stack traces to failed commands.',
        change: 'Anyone who looks for an error.',
        unset: '`info`; `warn` for `svc up`',
      }),
    ),
}

// The standard variables of OpenTelemetry. Its libraries read the others (headers, time-outs, certificates, resource
// attributes) themselves. A platform may set these for everything it runs, so a bad value does not stop the start.
const traces = {
  OTEL_EXPORTER_OTLP_ENDPOINT: z
    .string()
    .optional()
    .meta(
      about({
        type: 'URL',
        description: 'The collector. `/v1/traces` is added. Turns [traces](metrics.md#traces) on.',
        change: 'Anyone with a collector.',
        unset: 'no traces',
      }),
    ),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: z
    .string()
    .optional()
    .meta(
      about({
        type: 'URL',
        description: 'The full address for traces. Turns traces on.',
        change: 'Anyone with a collector of traces only.',
        unset: '`OTEL_EXPORTER_OTLP_ENDPOINT`',
      }),
    ),
  OTEL_TRACES_EXPORTER: z
    .string()
    .optional()
    .meta(
      about({
        type: '`otlp` or `none`',
        description: '`otlp` turns traces on, at `http://localhost:4318` without an endpoint. `none` turns them off.',
        change: 'Anyone whose platform sets an endpoint for all programs.',
        unset: 'an endpoint turns traces on',
      }),
    ),
  OTEL_SDK_DISABLED: z
    .string()
    .optional()
    .meta(about({ type: '`true`', description: 'Turns traces off.', change: 'As above.', unset: 'not disabled' })),
  OTEL_EXPORTER_OTLP_PROTOCOL: z
    .string()
    .optional()
    .meta(
      about({
        type: `\`${tracesProtocol}\``,
        description: 'The protocol. With any other one no traces are sent, and the log says so.',
        change: 'Nobody.',
        unset: `\`${tracesProtocol}\``,
      }),
    ),
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: z
    .string()
    .optional()
    .meta(
      about({
        type: `\`${tracesProtocol}\``,
        description: 'The same, for traces only.',
        change: 'Nobody.',
        unset: '`OTEL_EXPORTER_OTLP_PROTOCOL`',
      }),
    ),
  OTEL_TRACES_SAMPLER: z
    .enum(samplers)
    .catch(defaultSampler)
    .default(defaultSampler)
    .meta(
      about({
        type: samplers.map((it) => `\`${it}\``).join(', '),
        description: 'Which requests are traced.',
        change: 'Anyone under load: a span costs about as much as a small write.',
      }),
    ),
  OTEL_TRACES_SAMPLER_ARG: z.coerce
    .number()
    .min(0)
    .max(1)
    .catch(1)
    .default(1)
    .meta(
      about({
        type: '0 to 1',
        description: 'The share of requests that a ratio sampler takes.',
        change: 'Anyone who samples by ratio.',
      }),
    ),
  OTEL_BSP_MAX_QUEUE_SIZE: count(1)
    .catch(2_048)
    .default(2_048)
    .meta(
      about({
        type: 'spans',
        description: 'Spans that wait for the collector. Further ones are dropped.',
        change: 'Anyone who loses spans.',
      }),
    ),
  OTEL_BSP_SCHEDULE_DELAY: count(1)
    .catch(5_000)
    .default(5_000)
    .meta(about({ type: 'ms', description: 'How often spans are sent.', change: 'Anyone who debugs traces.' })),
}

/** The settings by chapter of `docs/settings.md`. */
export const chapters = {
  'Addresses and keys of clients': addresses,
  Stores: stores,
  Security: security,
  'Single sign-on': signingIn,
  Queue: queue,
  Limits: limits,
  'Retention and leases': retention,
  'Shutdown and logs': processes,
  Traces: traces,
}

export const fields = z.object({
  ...addresses,
  ...stores,
  ...security,
  ...signingIn,
  ...queue,
  ...limits,
  ...retention,
  ...processes,
  ...traces,
})

function checkRedisAddress(url: string, context: z.RefinementCtx): void {
  try {
    parseRedisAddress(url)
  } catch (error) {
    context.addIssue({ code: 'custom', message: (error as Error).message })
  }
}

/** Browsers send an origin in one form: lower case, without a path, and without the usual port. */
function checkOrigin(text: string, context: z.RefinementCtx): void {
  const url = URL.parse(text)
  const isOfPage = (url?.protocol === 'http:' || url?.protocol === 'https:') && !url.host.includes('*')
  const origin = isOfPage ? url.origin : undefined
  if (origin === text) return
  const form = origin === undefined ? '"https://host", "http://host:port" or "*"' : JSON.stringify(origin)
  context.addIssue({ code: 'custom', message: `${JSON.stringify(text)} is not an origin: write ${form}` })
}

/** The host in the normal form of URLs; with a port only if one was given. */
function toPrivateHost(text: string, context: z.RefinementCtx): string {
  const url = URL.parse(`https://${text}`)
  const isHost = url && url.username === '' && url.pathname === '/' && url.search === '' && url.hash === ''
  if (!isHost || /[*/@?#]/.test(text)) {
    context.addIssue({
      code: 'custom',
      message: `must be a list of host or host:port, but contains ${JSON.stringify(text)}`,
    })
    return z.NEVER
  }
  return /:\d+$/.test(text.replace(/^\[[^\]]*\]/, '')) ? `${url.hostname}:${url.port || '443'}` : url.hostname
}

function readCertificates(file: string, context: z.RefinementCtx): string {
  try {
    const pem = readFileSync(file, 'utf8')
    if (pem.includes('-----BEGIN CERTIFICATE-----')) return pem
    context.addIssue({ code: 'custom', message: 'must be a PEM file of certificates' })
  } catch (error) {
    context.addIssue({ code: 'custom', message: `cannot be read: ${(error as Error).message}` })
  }
  return z.NEVER
}

function isKey(text: string): boolean {
  return /^[0-9a-f]{64}$/i.test(text) || /^[A-Za-z0-9+/]{43}=$/.test(text)
}
