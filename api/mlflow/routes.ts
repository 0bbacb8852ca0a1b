import type { Route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Access } from '../access.ts'
import { createMlflowServerRoutes } from './server.ts'

type Deps = { database: Database; access: Access }

/** What clients of MLflow call, but for their writes of metrics: those are the ingest tier's. */
export function createMlflowRoutes(deps: Deps): Route[] {
  return [...createMlflowServerRoutes({ queries: deps.database, access: deps.access })]
}
