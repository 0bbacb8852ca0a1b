import { createSignIn } from '../../api/accounts/sign-in.ts'
import { createOrphanedObjects } from '../../api/assets/orphaned-objects.ts'
import { createChangeStreams } from '../../api/live/changes.ts'
import { createLiveStreams } from '../../api/live/streams.ts'
import { createApiRoutes } from '../../api/routes.ts'
import { createRefresher } from '../../api/single-sign-on/refresher.ts'
import { createSingleSignOn } from '../../api/single-sign-on/single-sign-on.ts'
import type { KeyCheck } from '../../http/key-check.ts'
import type { Route } from '../../http/route.ts'
import { repeat } from '../../runtime/poll.ts'
import { storeChecks } from '../../store/checks/stores.ts'
import { openObjects } from '../../store/objects/open-objects.ts'
import { findOrganization } from '../../store/postgres/accounts/users.ts'
import { type Database, openDatabase } from '../../store/postgres/database.ts'
import { endUnconfirmed } from '../../store/postgres/identities/endings.ts'
import type { Policy } from '../../store/postgres/identities/identities.ts'
import { openReadReplica } from '../../store/postgres/read-replica.ts'
import type { Producer, QueueBackend } from '../../store/queue/queue.ts'
import { type QueueName, queueNames } from '../../store/queue/queues.ts'
import { openProviders } from '../identity-providers.ts'
import { version } from '../version.ts'
import type { RouteParts } from './parts.ts'

const orphanedObjectsEveryMs = 60_000
const identitiesEveryMs = 5_000

/** Answers all calls but the writes of the stream. @param appUrl the address of the service in links */
export async function openApi(parts: RouteParts, appUrl: string, checkKey: KeyCheck) {
  const {
    stores,
    settings,
    database,
    clickhouse,
    tenants,
    eventReader,
    sandbox,
    backend,
    secrets,
    heartbeats,
    throttle,
    counters,
    countSignIn,
  } = parts
  const { intervals, metricsRegistry, closers, onStoreError, nameQueueError } = parts
  const { queueDepth, oldestQueuedMs, oldestAddedMs } = await nameQueueError(openQueueReads(backend))
  const reads = openReadReplica({
    primary: database,
    replicaUrl: settings.postgresReadUrl,
    share: tenants.share,
    metricsRegistry,
    onError: onStoreError('postgres replica'),
  })
  closers.push(() => reads.close())
  await reads.check()
  const objects = await openObjects(stores.objectsUrl)
  closers.push(objects.close)
  const orphanedObjects = createOrphanedObjects({
    database,
    objects,
    everyMs: orphanedObjectsEveryMs,
    onError: onStoreError('objects'),
  })
  closers.push(() => orphanedObjects.close())
  const { providers, proxy } = settings.singleSignOn
  const singleSignOn = openSingleSignOn(parts)
  const policies = [...providers, ...(proxy ? [proxy] : [])].map((it) => it.policy)
  await requireOrganizations(database, policies)
  const unconfirmed = repeat({
    everyMs: intervals.identitiesMs ?? identitiesEveryMs,
    work: () => endUnconfirmed(database),
    onError: onStoreError('postgres'),
  })
  closers.push(() => unconfirmed.close())
  const liveStreams = createLiveStreams({
    database,
    clickhouse,
    oldestAddedMs,
    onError: onStoreError('live streams'),
    everyMs: intervals.liveMs,
    outside: tenants.outside,
  })
  const { publicUrl, sessionDays } = settings
  const signIn = createSignIn({
    database,
    checkKey,
    chargeCall: throttle.call,
    publicUrl,
    sessionDays,
    countSignIn,
  })
  const changeStreams = createChangeStreams({
    clickhouse,
    findPosition: liveStreams.findPosition,
    onError: onStoreError('live streams'),
    everyMs: intervals.liveMs,
    outside: tenants.outside,
  })
  const routes = createApiRoutes({
    database,
    clickhouse,
    tenants,
    tenantLimits: settings.tenantLimits,
    eventReader,
    sandbox,
    objects,
    orphanedObjects,
    liveStreams,
    changeStreams,
    assetLimits: settings.assetLimits,
    deletedKeptForMs: settings.deletedKeptForMs,
    exportsPerUserMax: settings.exportsPerUserMax,
    reads,
    secrets,
    privateHosts: settings.webhookPrivateHosts,
    heartbeats,
    throttle,
    counters,
    queueDepth,
    oldestQueuedMs,
    backend,
    queueBlocksMax: settings.queueMax.blocks,
    checks: openChecks(parts),
    rateLimits: settings.rateLimits.perExperiment,
    seriesLimits: settings.seriesLimits,
    appUrl,
    signIn,
    singleSignOn,
    publicUrl,
    proxySignOutUrl: proxy?.signOutUrl,
    version,
  })
  return {
    objects,
    liveStreams,
    changeStreams,
    signIn,
    singleSignOn,
    routes: routes.map((it): Route => ({ ...it, tier: 'api' })),
  }
}

export type Api = Awaited<ReturnType<typeof openApi>>

/** Signs people in at OpenID Connect providers, and asks these again and again; undefined when the settings name none. */
function openSingleSignOn(parts: RouteParts) {
  const { settings, intervals, database, secrets, closers, onStoreError, countSignIn, log } = parts
  const { singleSignOn, publicUrl, masterKey, sessionDays } = settings
  if (singleSignOn.providers.length === 0 || publicUrl === undefined) return undefined
  if (!secrets || !masterKey) {
    throw new Error('SVC_MASTER_KEY must be set: it encrypts what the providers in SVC_SSO are asked with.')
  }
  const now = () => Date.now()
  const providers = openProviders(settings)
  const refresher = createRefresher({
    database,
    secrets,
    providers,
    everyMs: intervals.identitiesMs ?? identitiesEveryMs,
    log,
    onError: onStoreError('identity provider'),
    now,
  })
  closers.push(() => refresher.close())
  return createSingleSignOn({ database, secrets, masterKey, providers, publicUrl, sessionDays, countSignIn, log, now })
}

/** @throws Error that names an organization of the settings that does not exist */
async function requireOrganizations(database: Database, policies: Policy[]) {
  for (const { organizationName, provider } of policies) {
    if (await findOrganization(database, organizationName)) continue
    const name = JSON.stringify(organizationName)
    throw new Error(`SVC_SSO: ${provider}.organization: there is no organization ${name}`)
  }
}

/** The checks of the stores that this process has open. */
function openChecks({ stores, settings, database, clickhouse, backend, secrets, closers, onStoreError }: RouteParts) {
  const { postgresReadUrl } = settings
  const openReplica = (url: string) => {
    const queries = openDatabase({ url, connectionsMax: 1, onError: onStoreError('postgres replica') })
    closers.push(() => queries.close())
    return { url, queries }
  }
  const replica = postgresReadUrl === undefined ? undefined : openReplica(postgresReadUrl)
  return storeChecks({
    postgres: { url: stores.postgresUrl, database, replica },
    openSecrets: () => secrets,
    clickhouse: { url: stores.clickhouseUrl, clickhouse },
    queue: { redisUrl: stores.redisUrl, backend, max: settings.queueMax },
    objectsUrl: stores.objectsUrl,
  })
}

/** Counts the blocks in each queue, and tells how old they are. */
async function openQueueReads(backend: QueueBackend) {
  // One by one: all at once would open a connection for each.
  const producers = new Map(
    await Array.fromAsync(queueNames, async (name) => [name, await backend.openProducer(name)] as const),
  )
  const find = (name: QueueName) => producers.get(name) as Producer
  return {
    queueDepth: async (name: QueueName) => (await find(name).load()).blocks,
    oldestQueuedMs: (name: QueueName) => find(name).oldestReceivedMs(),
    oldestAddedMs: (name: QueueName) => find(name).oldestAddedMs(),
  }
}
