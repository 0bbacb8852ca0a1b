import type { Route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import type { Database, Queries } from '../../store/postgres/database.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { RunStore } from '../../store/postgres/experiments/values.ts'
import type { Access } from '../access.ts'
import type { OrphanedObjects } from '../assets/orphaned-objects.ts'
import type { AssetWriter } from '../assets/writer.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'
import { createArtifactPlaces } from './artifacts/places.ts'
import { createMlflowArtifactRoutes } from './artifacts/routes.ts'
import { createAwaitStored } from './await-stored.ts'
import { createMlflowExperimentRoutes } from './experiments.ts'
import { createExperimentFinder } from './find.ts'
import { createMlflowMetricRoutes } from './metrics.ts'
import { createLoggedModelFinder } from './models/find.ts'
import { createLoggedModelRoutes } from './models/routes.ts'
import { createRunReader } from './read-runs.ts'
import { createRegistryFinder } from './registry/find.ts'
import { createRegisteredModelRoutes } from './registry/models.ts'
import { createVersionSources } from './registry/sources.ts'
import { createModelVersionRoutes } from './registry/versions.ts'
import { createMlflowSearchRoutes } from './run-search.ts'
import { createMlflowRunRoutes } from './runs.ts'
import { createMlflowServerRoutes } from './server.ts'

type Deps = {
  database: Database
  reads: Queries
  clickhouse: ClickHouse
  objects: ObjectStore
  orphanedObjects: OrphanedObjects
  writer: AssetWriter
  access: Access
  heartbeats: Heartbeats
  rateLimited: RateLimitedWrite
  runStore: RunStore
  appUrl: string
  oldestQueuedMs(name: 'metrics'): Promise<number | undefined>
}

/** What clients of MLflow call, but for their writes of metrics: those are the ingest tier's. */
export function createMlflowRoutes({
  database,
  reads,
  clickhouse,
  access,
  heartbeats,
  rateLimited,
  runStore,
  ...deps
}: Deps): Route[] {
  const find = createExperimentFinder({ database, access })
  const awaitStored = createAwaitStored(() => deps.oldestQueuedMs('metrics'))
  const models = createLoggedModelFinder({ database, find })
  const places = createArtifactPlaces({ database, find, models })
  const registry = createRegistryFinder({ database, access })
  const sources = createVersionSources({ find, models, registry })
  const reader = createRunReader({ queries: database, clickhouse, awaitStored })
  return [
    ...createMlflowServerRoutes({ queries: database, access }),
    ...createMlflowExperimentRoutes({ database, access, find }),
    ...createMlflowRunRoutes({ database, access, find, reader, heartbeats, rateLimited, runStore }),
    ...createMlflowSearchRoutes({ reads, clickhouse, find, reader, awaitStored }),
    ...createMlflowMetricRoutes({ clickhouse, find, awaitStored }),
    ...createMlflowArtifactRoutes({ ...deps, database, find, places, heartbeats, rateLimited }),
    ...createRegisteredModelRoutes({ ...deps, database, access, registry }),
    ...createModelVersionRoutes({ ...deps, database, access, registry, sources }),
    ...createLoggedModelRoutes({ ...deps, database, access, find, models, heartbeats, rateLimited, runStore }),
  ]
}
