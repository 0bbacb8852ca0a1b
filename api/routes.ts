import type { PrivateHosts } from '../http/outgoing/receiver-url.ts'
import type { Route } from '../http/route.ts'
import type { Check } from '../store/checks/finding.ts'
import type { ClickHouse } from '../store/clickhouse/connection.ts'
import type { EventReader } from '../store/clickhouse/monitoring/reader.ts'
import type { Sandbox } from '../store/clickhouse/monitoring/sql/sandbox.ts'
import type { TenantLimits } from '../store/limits.ts'
import type { ObjectStore } from '../store/objects/object-store.ts'
import type { Secrets } from '../store/postgres/accounts/secrets.ts'
import type { Database, Queries } from '../store/postgres/database.ts'
import type { Heartbeats } from '../store/postgres/experiments/heartbeats.ts'
import { createRunStore } from '../store/postgres/experiments/values.ts'
import type { QueueBackend } from '../store/queue/queue.ts'
import type { QueueName } from '../store/queue/queues.ts'
import type { Counters } from '../throttle/counters.ts'
import type { Tenants } from '../throttle/tenants.ts'
import type { RateLimits, Throttle } from '../throttle/throttle.ts'
import { createAccess } from './access.ts'
import { createAuditRoutes } from './accounts/audit.ts'
import { createLimitRoutes } from './accounts/limits.ts'
import { createNotificationRoutes } from './accounts/notifications.ts'
import { createOwnKeyRoutes } from './accounts/own-keys.ts'
import { createRetentionRoutes } from './accounts/retention.ts'
import { createSecretRoutes } from './accounts/secrets.ts'
import { createServiceAccountRoutes } from './accounts/service-accounts.ts'
import { createSessionRoutes } from './accounts/sessions.ts'
import type { SignIn } from './accounts/sign-in.ts'
import { createTenantUsageRoutes } from './accounts/tenant-usage.ts'
import { createUsageRoutes } from './accounts/usage.ts'
import { createUserRoutes } from './accounts/users.ts'
import { createWorkspaceRoutes } from './accounts/workspaces.ts'
import { createArchiveRoutes } from './archive/routes.ts'
import { createArtifactAccess } from './artifacts/access.ts'
import { createArtifactRoutes } from './artifacts/artifacts.ts'
import { createArtifactDifferenceRoutes } from './artifacts/differences.ts'
import { createArtifactReadRoutes } from './artifacts/reads.ts'
import { createAssetRoutes } from './assets/assets.ts'
import { createModelRoutes } from './assets/experiment-models.ts'
import { createAssetFinder } from './assets/find.ts'
import { type AssetLimits, createAssetLimits } from './assets/limits.ts'
import { createMediaRoutes } from './assets/media.ts'
import type { OrphanedObjects } from './assets/orphaned-objects.ts'
import { createPageRoutes } from './assets/page.ts'
import { createRemoteAssetRoutes } from './assets/remote.ts'
import { createTableRoutes } from './assets/tables/routes.ts'
import { createTextSampleRoutes } from './assets/text-samples.ts'
import { createTreeRoutes } from './assets/tree.ts'
import { createAssetWriter } from './assets/writer.ts'
import { createRunCallRoutes } from './clientlib/calls.ts'
import { createLoggedRunRoutes } from './clientlib/runs.ts'
import { createRunStatusRoutes } from './clientlib/status.ts'
import { createRunUploadRoutes } from './clientlib/uploads.ts'
import { createRunValueRoutes } from './clientlib/values.ts'
import { createChartRoutes } from './experiments/charts.ts'
import { createCounterRoutes } from './experiments/counters.ts'
import { createDocumentRoutes } from './experiments/documents.ts'
import { createExperimentRoutes } from './experiments/experiments.ts'
import { createGitPatchRoutes } from './experiments/git-patch.ts'
import { createLifecycleRoutes } from './experiments/lifecycle.ts'
import { createLoggedDataRoutes } from './experiments/logged-values.ts'
import { createOutputRoutes } from './experiments/output.ts'
import { createRangeRoutes } from './experiments/ranges.ts'
import { createCallRoutes } from './experiments/rpc.ts'
import { createStreamReadRoutes } from './experiments/series.ts'
import { createAuditExportRoutes } from './export/audit.ts'
import { createEventExportRoutes } from './export/events.ts'
import { createExportRoutes } from './export/export.ts'
import { createExportSlots } from './export/slots.ts'
import { createLineageRoutes } from './lineage/lineage.ts'
import type { ChangeStreams } from './live/changes.ts'
import { createExperimentStreamRoutes } from './live/stream.ts'
import type { LiveStreams } from './live/streams.ts'
import { createMlflowRoutes } from './mlflow/routes.ts'
import { createMonitoringPreviewRoutes } from './monitoring/alert-preview.ts'
import { createMonitoringAlertRoutes } from './monitoring/alerts.ts'
import { createMonitoringDriftRoutes } from './monitoring/drift.ts'
import { createMonitoringDriftMapRoutes } from './monitoring/drift-map.ts'
import { createMonitoringEventRoutes } from './monitoring/event.ts'
import { createMonitoringFeatureRoutes } from './monitoring/features.ts'
import { createMonitoringQualityRoutes } from './monitoring/label-quality.ts'
import { createMonitoringModelRoutes } from './monitoring/models.ts'
import { createMonitoredModels } from './monitoring/monitored-model.ts'
import { createMonitoringOverviewRoutes } from './monitoring/overview.ts'
import { createReaderClassificationRoutes } from './monitoring/reader/classification.ts'
import { createReaderFeatureRoutes } from './monitoring/reader/features.ts'
import { createReaderModelRoutes } from './monitoring/reader/models.ts'
import { createReaderSqlRoutes } from './monitoring/reader/sql.ts'
import { createMonitoringSegmentRoutes, createSegmentReaders } from './monitoring/segments.ts'
import { createBackupRoutes } from './operations/backups.ts'
import { createDeadLetterRoutes } from './operations/dead-letters.ts'
import { createHealthRoutes } from './operations/health.ts'
import { createQueueRoutes } from './operations/queue.ts'
import { createColumnRoutes } from './projects/columns.ts'
import { createProjectDeletionRoutes } from './projects/deletion.ts'
import { createOutputSearchRoutes } from './projects/output-search.ts'
import { createProjectPageRoutes } from './projects/pages.ts'
import { createPanelRoutes } from './projects/panels.ts'
import { createProjectRoutes } from './projects/projects.ts'
import { createProjectQueryRoutes } from './projects/query.ts'
import { createRunColumnRoutes } from './projects/run-columns.ts'
import { createRunRoutes } from './projects/runs.ts'
import { createViewRoutes } from './projects/views.ts'
import { createVizStoreRoutes } from './projects/viz-stores.ts'
import { createRateLimitedWrite } from './rate-limited-write.ts'
import { createRegistryHistoryRoutes } from './registry/history.ts'
import { createRegistryItemRoutes } from './registry/items.ts'
import { createRegistryModelRoutes } from './registry/models.ts'
import { createRegistryReadRoutes } from './registry/reads.ts'
import { createRegistrationRoutes } from './registry/registration.ts'
import { createRegistrySearchRoutes } from './registry/search.ts'
import { createRegistryStatusRoutes } from './registry/statuses.ts'
import { createRegistryVersionRoutes } from './registry/versions.ts'
import { createSearchRoutes } from './search/routes.ts'
import type { SingleSignOn } from './single-sign-on/single-sign-on.ts'
import { createWebhookDeliveryRoutes } from './webhooks/deliveries.ts'
import { createWebhookRoutes } from './webhooks/receivers.ts'

type Deps = {
  database: Database
  /** For long reads that no write depends on; as recent as `database`, see `store/postgres/read-replica.ts`. */
  reads: Queries
  clickhouse: ClickHouse
  tenants: Tenants
  tenantLimits: TenantLimits
  eventReader: EventReader
  /** Undefined when callers may send no SQL. */
  sandbox: Sandbox | undefined
  objects: ObjectStore
  orphanedObjects: OrphanedObjects
  liveStreams: LiveStreams
  changeStreams: ChangeStreams
  assetLimits: AssetLimits
  /** How long what was deleted can be restored. */
  deletedKeptForMs: number
  /** How many exports of a user may run at a time. */
  exportsPerUserMax: number
  /** Undefined without a master key: then secrets cannot be stored. */
  secrets: Secrets | undefined
  /** Private hosts that webhooks may be sent to. */
  privateHosts: PrivateHosts
  heartbeats: Heartbeats
  throttle: Throttle
  counters: Counters
  queueDepth(name: QueueName): Promise<number>
  /** When the oldest block in a queue was accepted, in ms since the Unix epoch; undefined when it is empty. */
  oldestQueuedMs(name: QueueName): Promise<number | undefined>
  backend: QueueBackend
  /** The number of blocks in a queue at which writes are rejected. */
  queueBlocksMax: number
  /** What `svc doctor` checks of the stores. */
  checks: Check[]
  /** The defaults for each experiment and model. */
  rateLimits: RateLimits
  seriesLimits: { metricNamesMax: number; pointsPerMetricMax: number }
  /** The base URL of the web application, for links to experiments. */
  appUrl: string
  signIn: SignIn
  /** Undefined without OpenID Connect providers. */
  singleSignOn: SingleSignOn | undefined
  publicUrl: string | undefined
  /** Where the people of the reverse proxy sign out. */
  proxySignOutUrl: string | undefined
  version: string
}

/** All routes except the writes that go through the queue. */
export function createApiRoutes({
  database,
  reads,
  clickhouse,
  tenants,
  tenantLimits,
  eventReader,
  sandbox,
  objects,
  orphanedObjects,
  liveStreams,
  changeStreams,
  assetLimits,
  deletedKeptForMs,
  exportsPerUserMax,
  secrets,
  privateHosts,
  heartbeats,
  throttle,
  counters,
  queueDepth,
  oldestQueuedMs,
  backend,
  queueBlocksMax,
  checks,
  rateLimits,
  seriesLimits,
  appUrl,
  signIn,
  singleSignOn,
  publicUrl,
  proxySignOutUrl,
  version,
}: Deps): Route[] {
  const access = createAccess(database, tenants, tenantLimits)
  const rateLimited = createRateLimitedWrite({ throttle, counters })
  const runStore = createRunStore(database)
  const limits = createAssetLimits({ database, limits: assetLimits, perTenant: tenantLimits })
  const writer = createAssetWriter({ database, objects, orphanedObjects, limits })
  const artifacts = createArtifactAccess({ queries: database, access })
  const findAsset = createAssetFinder({ database, access, artifacts })
  const models = createMonitoredModels({ queries: database, access })
  const segments = createSegmentReaders({ database, eventReader })
  const exportSlots = createExportSlots(exportsPerUserMax, tenants)
  const assets = {
    database,
    reads,
    objects,
    orphanedObjects,
    writer,
    access,
    artifacts,
    findAsset,
    heartbeats,
    rateLimited,
    appUrl,
  }
  return [
    ...createWorkspaceRoutes({ database, access }),
    ...createProjectRoutes({ database, access }),
    ...createProjectDeletionRoutes({ database, access, deletedKeptForMs }),
    ...createProjectPageRoutes({ database, access }),
    ...createVizStoreRoutes({ database, access }),
    ...createViewRoutes({ database, access }),
    ...createPanelRoutes(assets),
    ...createColumnRoutes({ reads, clickhouse, access }),
    ...createProjectQueryRoutes({ reads, clickhouse, access }),
    ...createRunRoutes({ reads, clickhouse, access }),
    ...createSearchRoutes({ reads, clickhouse, access, tenants }),
    ...createOutputSearchRoutes({ reads, clickhouse, access }),
    ...createRunColumnRoutes({ reads, clickhouse, access }),
    ...createExperimentRoutes({ database, reads, access, heartbeats, rateLimited, appUrl }),
    ...createCallRoutes({ database, access, heartbeats, rateLimited }),
    ...createLifecycleRoutes({ database, access, appUrl }),
    ...createDocumentRoutes({ database, clickhouse, objects, access, heartbeats, rateLimited }),
    ...createLoggedDataRoutes({ database, runStore, access, heartbeats, rateLimited }),
    ...createAssetRoutes(assets),
    ...createMediaRoutes(assets),
    ...createTableRoutes(assets),
    ...createTreeRoutes(assets),
    ...createPageRoutes(assets),
    ...createRemoteAssetRoutes(assets),
    ...createTextSampleRoutes(assets),
    ...createGitPatchRoutes(assets),
    ...createModelRoutes(assets),
    ...createArtifactRoutes(assets),
    ...createArtifactReadRoutes(assets),
    ...createArtifactDifferenceRoutes(assets),
    ...createLineageRoutes(assets),
    ...createRegistrationRoutes(assets),
    ...createRegistryModelRoutes(assets),
    ...createRegistryVersionRoutes(assets),
    ...createRegistryReadRoutes(assets),
    ...createRegistrySearchRoutes({ reads, access }),
    ...createRegistryHistoryRoutes(assets),
    ...createRegistryItemRoutes(assets),
    ...createRegistryStatusRoutes(assets),
    ...createLoggedRunRoutes({ database, access, appUrl }),
    ...createRunStatusRoutes({ database, access, heartbeats, rateLimited }),
    ...createRunValueRoutes({ database, runStore, access, heartbeats, rateLimited }),
    ...createRunUploadRoutes(assets),
    ...createRunCallRoutes({ database, access, rateLimited }),
    ...createMlflowRoutes({ ...assets, clickhouse, runStore, oldestQueuedMs }),
    ...createChartRoutes({ database, clickhouse, tenants }),
    ...createRangeRoutes({ database, clickhouse, tenants, findPosition: liveStreams.findPosition }),
    ...createExportRoutes({
      reads,
      clickhouse,
      access,
      findPosition: liveStreams.findPosition,
      slots: exportSlots,
    }),
    ...createEventExportRoutes({ clickhouse, models, slots: exportSlots }),
    ...createAuditExportRoutes({ reads, clickhouse, slots: exportSlots }),
    ...createArchiveRoutes({
      ...assets,
      clickhouse,
      limits,
      findPosition: liveStreams.findPosition,
      slots: exportSlots,
    }),
    ...createWebhookRoutes({ database, access, secrets, privateHosts }),
    ...createWebhookDeliveryRoutes({ database, reads, access, secrets, appUrl }),
    ...createStreamReadRoutes({ clickhouse, access }),
    ...createOutputRoutes({ clickhouse, access }),
    ...createExperimentStreamRoutes({ database, access, tenants, liveStreams, changeStreams }),
    ...createMonitoringModelRoutes({ database, clickhouse, access, models, segments }),
    ...createMonitoringOverviewRoutes({ database, eventReader, access }),
    ...createMonitoringEventRoutes({ database, clickhouse, models }),
    ...createMonitoringFeatureRoutes({ segments, models }),
    ...createMonitoringDriftRoutes({ database, segments, models }),
    ...createMonitoringDriftMapRoutes({ database, segments, models }),
    ...createMonitoringQualityRoutes({ segments, models }),
    ...createMonitoringSegmentRoutes({ database, access }),
    ...createMonitoringPreviewRoutes({ database, clickhouse, eventReader, access }),
    ...createMonitoringAlertRoutes({ database, access }),
    ...createReaderModelRoutes({ database, clickhouse, eventReader, models }),
    ...createReaderFeatureRoutes({ database, eventReader, sandbox, models }),
    ...createReaderClassificationRoutes({ eventReader, sandbox, models }),
    ...createReaderSqlRoutes({ eventReader, sandbox, models }),
    ...createCounterRoutes({ database, clickhouse, access, queueDepth }),
    ...createLimitRoutes({ database }),
    ...createTenantUsageRoutes({ database, access, tenants, tenantLimits }),
    ...createUsageRoutes({
      database,
      clickhouse,
      rateLimits,
      seriesLimits,
      workspaceBytesMax: tenantLimits.workspace.fileBytesMax,
    }),
    ...createRetentionRoutes({ database }),
    ...createSessionRoutes({ database, signIn, singleSignOn, publicUrl, proxySignOutUrl, version }),
    ...createNotificationRoutes({ database }),
    ...createOwnKeyRoutes({ database, access }),
    ...createUserRoutes({ database }),
    ...createServiceAccountRoutes({ database }),
    ...createSecretRoutes({ database, secrets }),
    ...createAuditRoutes({ reads }),
    ...createDeadLetterRoutes({ database, clickhouse, backend }),
    ...createQueueRoutes({ database, backend, queueBlocksMax }),
    ...createHealthRoutes({ checks, version }),
    ...createBackupRoutes({ database }),
  ]
}
