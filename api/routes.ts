import type { PrivateHosts } from '../http/receiver-url.ts'
import type { Route } from '../http/route.ts'
import type { SignsOfLife } from '../http/signs-of-life.ts'
import type { Counters } from '../http/throttle/counters.ts'
import type { Throttle } from '../http/throttle/throttle.ts'
import type { ClickHouse } from '../store/clickhouse/connection.ts'
import type { ObjectStore } from '../store/objects/object-store.ts'
import type { Database, Queries } from '../store/postgres/database.ts'
import type { Secrets } from '../store/postgres/secrets.ts'
import type { QueueName } from '../store/queue/queues.ts'
import { createAccess } from './access.ts'
import { createArtifactAccess } from './artifact-access.ts'
import { createArtifactReadRoutes } from './artifact-reads.ts'
import { createArtifactRoutes } from './artifacts.ts'
import { createAssetKeeper } from './asset-keeper.ts'
import { type AssetLimits, createAssetLimits } from './asset-limits.ts'
import { createAssetRoutes } from './assets.ts'
import { createAuditRoutes } from './audit.ts'
import { createCallRoutes } from './calls.ts'
import { createCharge } from './charge.ts'
import { createChartRoutes } from './charts.ts'
import { createColumnRoutes } from './columns.ts'
import { createCounterRoutes } from './counters.ts'
import { createDocumentRoutes } from './documents.ts'
import { createLifecycleRoutes } from './experiment-lifecycle.ts'
import { createExperimentStreamRoutes } from './experiment-stream.ts'
import { createExperimentRoutes } from './experiments.ts'
import { createGitPatchRoutes } from './git-patch.ts'
import { createLimitRoutes } from './limits.ts'
import type { LiveStreams } from './live-streams.ts'
import { createLoggedDataRoutes } from './logged-data.ts'
import type { LooseObjects } from './loose-objects.ts'
import { createModelRoutes } from './models.ts'
import { createMonitoredModels } from './monitored-model.ts'
import { createMonitoringAlertRoutes } from './monitoring-alerts.ts'
import { createMonitoringDriftRoutes } from './monitoring-drift.ts'
import { createMonitoringEventRoutes } from './monitoring-event.ts'
import { createMonitoringFeatureRoutes } from './monitoring-features.ts'
import { createMonitoringModelRoutes } from './monitoring-models.ts'
import { createMonitoringQualityRoutes } from './monitoring-quality.ts'
import { createPanelRoutes } from './panels.ts'
import { createProjectPageRoutes } from './project-pages.ts'
import { createProjectQueryRoutes } from './project-query.ts'
import { createProjectRoutes } from './projects.ts'
import { createRegistrationRoutes } from './registration.ts'
import { createRegistryHistoryRoutes } from './registry-history.ts'
import { createRegistryModelRoutes } from './registry-models.ts'
import { createRegistryReadRoutes } from './registry-reads.ts'
import { createRegistryVersionRoutes } from './registry-versions.ts'
import { createRemoteAssetRoutes } from './remote-assets.ts'
import { createRetentionRoutes } from './retention.ts'
import { createSecretRoutes } from './secrets.ts'
import { createServiceAccountRoutes } from './service-accounts.ts'
import { createStreamReadRoutes } from './stream-reads.ts'
import { createTextSampleRoutes } from './text-samples.ts'
import { createUserRoutes } from './users.ts'
import { createVizStoreRoutes } from './viz-stores.ts'
import { createWebhookDeliveryRoutes } from './webhook-deliveries.ts'
import { createWebhookRoutes } from './webhooks.ts'
import { createWorkspaceRoutes } from './workspaces.ts'

type Deps = {
  database: Database
  /** Answers as new as those of `database`, for reads of many rows that decide nothing: see `read-replica.ts` there. */
  reads: Queries
  clickhouse: ClickHouse
  objects: ObjectStore
  looseObjects: LooseObjects
  liveStreams: LiveStreams
  assetLimits: AssetLimits
  /** Undefined without a master key: then none can be kept. */
  secrets: Secrets | undefined
  /** Receivers of webhooks that are allowed although they are private. */
  privateHosts: PrivateHosts
  signs: SignsOfLife
  throttle: Throttle
  counters: Counters
  queueDepth(name: QueueName): Promise<number>
  /** Where people reach the web application; links to experiments begin with it. */
  appUrl: string
}

/** Everything that is not the stream: the relational side, and every read. */
export function createApiRoutes({
  database,
  reads,
  clickhouse,
  objects,
  looseObjects,
  liveStreams,
  assetLimits,
  secrets,
  privateHosts,
  signs,
  throttle,
  counters,
  queueDepth,
  appUrl,
}: Deps): Route[] {
  const access = createAccess(database)
  const charge = createCharge({ throttle, counters })
  const limits = createAssetLimits({ database, limits: assetLimits })
  const keeper = createAssetKeeper({ database, objects, looseObjects, limits })
  const artifacts = createArtifactAccess({ queries: database, access })
  const models = createMonitoredModels({ queries: database, access })
  const assets = { database, reads, objects, looseObjects, keeper, access, artifacts, signs, charge, appUrl }
  return [
    ...createWorkspaceRoutes({ database, access }),
    ...createProjectRoutes({ database, access }),
    ...createProjectPageRoutes({ database, access }),
    ...createVizStoreRoutes({ database, access }),
    ...createPanelRoutes(assets),
    ...createColumnRoutes({ reads, clickhouse, access }),
    ...createProjectQueryRoutes({ reads, clickhouse, access }),
    ...createExperimentRoutes({ database, reads, access, signs, charge, appUrl }),
    ...createCallRoutes({ database, access, signs, charge }),
    ...createLifecycleRoutes({ database, access, appUrl }),
    ...createDocumentRoutes({ database, clickhouse, access, signs, charge }),
    ...createLoggedDataRoutes({ database, access, signs, charge }),
    ...createAssetRoutes(assets),
    ...createRemoteAssetRoutes(assets),
    ...createTextSampleRoutes(assets),
    ...createGitPatchRoutes(assets),
    ...createModelRoutes(assets),
    ...createArtifactRoutes(assets),
    ...createArtifactReadRoutes(assets),
    ...createRegistrationRoutes(assets),
    ...createRegistryModelRoutes(assets),
    ...createRegistryVersionRoutes(assets),
    ...createRegistryReadRoutes(assets),
    ...createRegistryHistoryRoutes(assets),
    ...createChartRoutes({ database, clickhouse }),
    ...createWebhookRoutes({ database, access, secrets, privateHosts }),
    ...createWebhookDeliveryRoutes({ database, reads, access, secrets, appUrl }),
    ...createStreamReadRoutes({ clickhouse, access }),
    ...createExperimentStreamRoutes({ access, liveStreams }),
    ...createMonitoringModelRoutes({ database, clickhouse, access, models }),
    ...createMonitoringEventRoutes({ database, clickhouse, models }),
    ...createMonitoringFeatureRoutes({ clickhouse, models }),
    ...createMonitoringDriftRoutes({ database, clickhouse, models }),
    ...createMonitoringQualityRoutes({ clickhouse, models }),
    ...createMonitoringAlertRoutes({ database, access }),
    ...createCounterRoutes({ database, clickhouse, access, queueDepth }),
    ...createLimitRoutes({ database }),
    ...createRetentionRoutes({ database }),
    ...createUserRoutes({ database }),
    ...createServiceAccountRoutes({ database }),
    ...createSecretRoutes({ secrets }),
    ...createAuditRoutes({ reads }),
  ]
}
