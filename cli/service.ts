import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { createCors } from '../http/cors.ts'
import { openMetricsServer } from '../http/health.ts'
import { createKeyCheck } from '../http/key-check.ts'
import type { Route, RouteDescription } from '../http/route.ts'
import { createServer } from '../http/server.ts'
import { createSessionCheck } from '../http/session-check.ts'
import { createProxyCheck } from '../http/sign-in/proxy-check.ts'
import { createProxySignIn } from '../http/sign-in/proxy-sign-in.ts'
import { createSignInCounter } from '../http/sign-in/sign-ins.ts'
import { createClosers } from '../runtime/closers.ts'
import { openClickHouse } from '../store/clickhouse/connection.ts'
import { checkClickHouse } from '../store/clickhouse/migrations/check.ts'
import { createEventReader } from '../store/clickhouse/monitoring/reader.ts'
import { openSandbox } from '../store/clickhouse/monitoring/sql/sandbox.ts'
import { findAccount } from '../store/postgres/accounts/accounts.ts'
import { openKeyChanges } from '../store/postgres/accounts/key-changes.ts'
import { updateKeyUses } from '../store/postgres/accounts/keys.ts'
import { createLastSeen } from '../store/postgres/accounts/last-seen.ts'
import { findTenantLimits } from '../store/postgres/accounts/limits.ts'
import { openSecrets } from '../store/postgres/accounts/secrets.ts'
import { findSessionAccount } from '../store/postgres/accounts/sessions.ts'
import { updateActivity } from '../store/postgres/accounts/users.ts'
import { openDatabase } from '../store/postgres/database.ts'
import { addToCounters, upsertThrottled } from '../store/postgres/experiments/counters.ts'
import { updateHeartbeats } from '../store/postgres/experiments/experiments.ts'
import { createHeartbeats } from '../store/postgres/experiments/heartbeats.ts'
import { checkPostgres } from '../store/postgres/migrate.ts'
import { addToModelCounters } from '../store/postgres/monitoring/models.ts'
import { openQueueBackend } from '../store/queue/open-queue.ts'
import { openSharedBuckets } from '../store/redis/token-buckets.ts'
import { createCounters } from '../throttle/counters.ts'
import { createLeasedBuckets } from '../throttle/leases.ts'
import { createThrottle } from '../throttle/throttle.ts'
import { createLocalBuckets } from '../throttle/token-buckets.ts'
import { explainListenError } from './port.ts'
import type { Api } from './roles/api.ts'
import type { Intervals, Parts, RouteParts } from './roles/parts.ts'
import { tracesProtocol } from './settings/schema.ts'
import { type Settings, type StoreUrls, toClickHouse } from './settings.ts'
import { nameStoreError } from './store-error.ts'
import { openTenants } from './tenants.ts'
import { version } from './version.ts'
import { watchConnections } from './watch-connections.ts'

/** `worker` moves the queue into ClickHouse and runs the background jobs; `webhook-worker` delivers webhooks. */
export type Role = 'ingest' | 'worker' | 'webhook-worker' | 'api'

const pagesFolder = path.resolve(import.meta.dirname, '../web/dist')
const heartbeatEveryMs = 1_000
const activityEveryMs = 1_000

/**
 * Starts roles in this process on running, migrated stores, behind one address. `close` drains: it takes no new requests,
 * commits open blocks, then finishes the jobs that workers have begun.
 *
 * @throws Error with advice, when a store is down, has an older schema, or would lose data
 */
export async function startService(
  roles: ReadonlySet<Role>,
  stores: StoreUrls,
  settings: Settings,
  log: Logger,
  intervals: Intervals = {},
): Promise<{ url: string; routes: readonly Route[]; close(): Promise<void> }> {
  const closers = createClosers()
  let draining = false
  const onStoreError = (store: string) => (error: unknown) =>
    log.warn({ err: error, store }, 'a store reported an error')
  const now = () => performance.now()
  /** Shared by all processes if there is a Redis, else local to this one. */
  const openBuckets = async () => {
    if (stores.redisUrl === undefined) return createLocalBuckets(now)
    const shared = await openSharedBuckets({
      url: stores.redisUrl,
      prefix: settings.queuePrefix,
      onError: onStoreError('redis'),
    })
    closers.push(() => shared.close())
    return createLeasedBuckets({ shared, now })
  }
  const metricsRegistry = Registry.merge([findProcessMetrics()])
  const roleInfo = new Gauge({
    name: 'svc_role_info',
    help: '1 for each role of this process',
    labelNames: ['role', 'version'],
    registers: [metricsRegistry],
  })
  for (const role of roles) roleInfo.set({ role, version }, 1)

  try {
    const tracing = await openTracing({ settings, roles, log })
    if (tracing) closers.push(() => tracing.close())
    const { tenants, onThrottled } = openTenants({
      find: (place) => findTenantLimits(database, place),
      settings,
      metricsRegistry,
      onError: onStoreError('postgres'),
    })
    const database = openDatabase({
      url: stores.postgresUrl,
      share: tenants.share,
      onError: onStoreError('postgres'),
    })
    closers.push(() => database.close())
    const clickhouse = openClickHouse({ ...toClickHouse(stores), admit: tenants.query, slices: tenants.slices })
    closers.push(() => clickhouse.close())
    await Promise.all([
      nameStoreError('Postgres', stores.postgresUrl, checkPostgres(database)),
      nameStoreError('ClickHouse', stores.clickhouseUrl, checkClickHouse(clickhouse)),
    ])
    tenants.shareCores(await clickhouse.countCores())

    const sandbox =
      stores.clickhouseSqlUrl === undefined
        ? undefined
        : openSandbox({ url: stores.clickhouseSqlUrl, clickhouse, limits: settings.sqlLimits })
    if (sandbox) closers.push(() => sandbox.close())
    if (sandbox && settings.clickhouseSqlUrl) {
      await nameStoreError('ClickHouse', settings.clickhouseSqlUrl, sandbox.check())
    }

    const { masterKey, previousMasterKey } = settings
    const secrets = masterKey && openSecrets({ database, masterKey, previousMasterKey })
    await secrets?.check()

    const backend = openQueueBackend({
      redisUrl: stores.redisUrl,
      postgresUrl: stores.postgresUrl,
      prefix: settings.queuePrefix,
      shards: settings.queueShards,
      replicas: settings.queueReplicas,
      onError: onStoreError('queue'),
    })
    closers.push(() => backend.close())
    const nameQueueError = <T>(work: Promise<T>) =>
      stores.redisUrl
        ? nameStoreError('Redis', stores.redisUrl, work)
        : nameStoreError('Postgres', stores.postgresUrl, work)
    await nameQueueError(backend.check())
    const weakness = await nameQueueError(backend.findWeakness())
    if (weakness) log.warn({ store: 'redis' }, weakness)

    const parts: Parts = {
      stores,
      settings,
      intervals,
      database,
      clickhouse,
      tenants,
      eventReader: createEventReader(clickhouse),
      sandbox,
      backend,
      secrets,
      metricsRegistry,
      tracing,
      closers,
      log,
      onStoreError,
      nameQueueError,
    }
    // Roles are imported on demand: their libraries cost memory and time.
    if (roles.has('worker')) {
      const { openWorker } = await import('./roles/worker.ts')
      await openWorker(parts)
    }
    if (roles.has('webhook-worker')) {
      if (secrets) {
        const { openWebhookWorker } = await import('./roles/webhook-worker.ts')
        await openWebhookWorker(parts, secrets)
      } else if (roles.size === 1) {
        throw new Error('SVC_MASTER_KEY must be set: it decrypts the signing secrets of webhooks.')
      } else log.warn('this worker sends no webhooks: SVC_MASTER_KEY is not set')
    }
    const heartbeats = createHeartbeats({
      write: (batch) => updateHeartbeats(database, batch),
      everyMs: heartbeatEveryMs,
      onError: onStoreError('postgres'),
    })
    closers.push(() => heartbeats.close())

    const activity = createLastSeen({
      write: (batch) => updateActivity(database, batch),
      everyMs: activityEveryMs,
      onError: onStoreError('postgres'),
    })
    closers.push(() => activity.close())
    const keyUses = createLastSeen({
      write: (batch) => updateKeyUses(database, batch),
      everyMs: activityEveryMs,
      onError: onStoreError('postgres'),
    })
    closers.push(() => keyUses.close())
    const keyChanges = openKeyChanges({ url: stores.postgresUrl, onError: onStoreError('postgres') })
    closers.push(() => keyChanges.close())

    const counters = createCounters({
      writeCounts: (counted) => addToCounters(database, counted),
      writeThrottled: (throttled) => upsertThrottled(database, throttled),
      writeModelCounts: (counted) => addToModelCounters(database, counted),
      onError: onStoreError('postgres'),
    })
    closers.push(() => counters.close())
    const throttle = createThrottle({
      buckets: await openBuckets(),
      ...settings.rateLimits,
      perTenant: settings.tenantLimits,
      onTenantThrottled: onThrottled,
      counters,
      now,
    })

    const onCaller = ({ userId, keyId }: { userId: string; keyId: string }) => {
      const nowMs = Date.now()
      activity.active(userId, nowMs)
      keyUses.active(keyId, nowMs)
    }
    const checkKey = createKeyCheck({
      findCaller: (keyHash) => findAccount(database, keyHash),
      changes: keyChanges,
      onCaller,
      authHeaders: settings.authHeaders,
    })
    const { proxy } = settings.singleSignOn
    const countSignIn = createSignInCounter(metricsRegistry)
    const findProxyCaller = proxy && createProxySignIn({ ...proxy, database, countSignIn })
    const checkProxy = proxy && findProxyCaller && createProxyCheck({ ...proxy, findCaller: findProxyCaller, onCaller })
    const routeParts: RouteParts = { ...parts, heartbeats, throttle, counters, countSignIn }
    const routes: Route[] = []
    if (roles.has('ingest')) {
      const { openIngest } = await import('./roles/ingest.ts')
      routes.push(...(await openIngest(routeParts)))
    }
    let api: Api | undefined
    let otherRoutes: RouteDescription[] = []
    if (roles.has('api')) {
      const { openApi } = await import('./roles/api.ts')
      const appUrl = settings.publicUrl ?? `http://${toUrlHost(settings.host)}:${settings.port}`
      api = await openApi(routeParts, appUrl, checkKey)
      routes.push(...api.routes)
      // The api's OpenAPI document describes the routes of ingest too.
      if (!roles.has('ingest')) otherRoutes = (await import('../ingest/descriptions.ts')).ingestDescriptions
    }

    const app = await createServer({
      routes,
      otherRoutes,
      hasFastPath: settings.hasFastPath,
      cors: createCors({ origins: settings.corsOrigins, authHeaders: settings.authHeaders }),
      checkKey,
      tenants,
      checkProxy,
      chargeCall: throttle.call,
      checkSession: createSessionCheck({
        findCaller: (tokenHash) => findSessionAccount(database, tokenHash),
        changes: keyChanges,
        onCaller,
      }),
      ...(api && { signInWithLink: api.signIn.withLink, providerSignIn: api.singleSignOn }),
      health: {
        checks: {
          postgres: () => database.row('SELECT 1'),
          clickhouse: () => clickhouse.ping(),
          queue: () => backend.check(),
          ...(api && { objects: api.objects.check }),
        },
        // Ingest takes writes without ClickHouse, and those of cached keys without Postgres. Were it not ready then, a
        // load balancer would refuse all writes.
        canBeAway: new Set(roles.has('ingest') && roles.size === 1 ? ['clickhouse', 'postgres'] : []),
        metricsRegistry,
        hasMetricsElsewhere: settings.metricsPort !== undefined,
        isDraining: () => draining,
      },
      version,
      ...(api && { pages: { folder: pagesFolder, basePath: toBasePath(settings.publicUrl) } }),
      tracing,
      log,
    })
    if (settings.metricsPort !== undefined) {
      const { host, metricsPort: port } = settings
      const metrics = await openMetricsServer({ host, port, metricsRegistry }).catch((error: unknown) => {
        throw explainListenError(error, { ...settings, port })
      })
      closers.push(async () => void metrics.close())
    }
    const connections = watchConnections(app.server, app.fastPath)
    closers.push(async () => {
      const closed = app.close()
      connections.closeAll()
      await closed
    })
    // Closed first: live streams never end by themselves.
    closers.push(async () => {
      await Promise.all([api?.liveStreams.close(), api?.changeStreams.close()])
    })
    await app.listen({ host: settings.host, port: settings.port }).catch((error: unknown) => {
      throw explainListenError(error, settings)
    })
    const { port } = app.server.address() as AddressInfo
    return {
      url: `http://${toUrlHost(settings.host)}:${port}`,
      routes,
      async close() {
        draining = true
        // Load balancers need time to notice. Requests are answered meanwhile, and each answer closes its connection.
        if (routes.length > 0) await sleep(settings.shutdownDelayMs)
        await closers.closeAll()
      },
    }
  } catch (error) {
    await closers.closeAll().catch(() => undefined)
    throw error
  }
}

let processMetrics: Registry | undefined

/** Made once: what watches garbage collection and the event loop never ends, and would keep each closed service in memory. */
function findProcessMetrics(): Registry {
  if (processMetrics) return processMetrics
  processMetrics = new Registry()
  collectDefaultMetrics({ register: processMetrics })
  return processMetrics
}

/** Undefined when traces are off or use an unsupported protocol. */
async function openTracing({ settings, roles, log }: { settings: Settings; roles: Iterable<Role>; log: Logger }) {
  if (!settings.tracing) return undefined
  const { protocol } = settings.tracing
  if (protocol !== tracesProtocol) {
    log.warn({ protocol }, `traces are not sent: set OTEL_EXPORTER_OTLP_PROTOCOL to ${tracesProtocol}`)
    return undefined
  }
  const { openTracing: open } = await import('./tracing.ts')
  return open({ settings: settings.tracing, roles, log })
}

/** The path of the public address, with a slash at its end. */
function toBasePath(publicUrl: string | undefined): string {
  return publicUrl === undefined ? '/' : `${new URL(publicUrl).pathname.replace(/\/+$/, '')}/`
}

/** The host by which this machine reaches a server that listens on `host`. */
export function toUrlHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}
