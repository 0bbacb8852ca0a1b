import type { Route } from '../http/route.ts'
import type { SignsOfLife } from '../http/signs-of-life.ts'
import type { ClickHouse } from '../store/clickhouse/connection.ts'
import type { Database } from '../store/postgres/database.ts'
import { createAccess } from './access.ts'
import { createExperimentRoutes } from './experiments.ts'
import { createLoggedDataRoutes } from './logged-data.ts'
import { createProjectRoutes } from './projects.ts'
import { createStreamReadRoutes } from './stream-reads.ts'
import { createWorkspaceRoutes } from './workspaces.ts'

type Deps = {
  database: Database
  clickhouse: ClickHouse
  signs: SignsOfLife
  /** Where people reach the web application; links to experiments begin with it. */
  appUrl: string
}

/** Everything that is not the stream: the relational side, and every read. */
export function createApiRoutes({ database, clickhouse, signs, appUrl }: Deps): Route[] {
  const access = createAccess(database)
  return [
    ...createWorkspaceRoutes({ database }),
    ...createProjectRoutes({ database, access }),
    ...createExperimentRoutes({ database, access, signs, appUrl }),
    ...createLoggedDataRoutes({ database, access, signs }),
    ...createStreamReadRoutes({ clickhouse, access }),
  ]
}
