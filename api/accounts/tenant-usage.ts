import { z } from 'zod'
import { object } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import { type GivenLimits, type TenantLimitName, type TenantLimits, tenantLimitNames } from '../../store/limits.ts'
import { findTenantLimits, findTenantUsage } from '../../store/postgres/accounts/limits.ts'
import { findOrganizationWorkspace } from '../../store/postgres/accounts/workspaces.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Tenants } from '../../throttle/tenants.ts'
import type { Access } from '../access.ts'
import { workspaceName } from './workspaces.ts'

type Deps = { database: Database; access: Access; tenants: Pick<Tenants, 'inUse'>; tenantLimits: TenantLimits }

const usedAnswer = z
  .array(
    z.object({
      name: z.enum(tenantLimitNames),
      used: z.number().describe('now; points: in the last minute; streams, exports and queries: in this process'),
      max: z.int().nullable().describe('null when there is no limit'),
    }),
  )
  .describe('each limit beside what is used of it')

/** What a tenant uses of its limits. */
export function createTenantUsageRoutes({ database, access, tenants, tenantLimits }: Deps): Route[] {
  async function read(organizationId: string, userId: string, workspaceName: string | null) {
    const place = { organizationId, workspaceName }
    const [found, stored] = await Promise.all([findTenantLimits(database, place), findTenantUsage(database, place)])
    const given: GivenLimits = found?.[workspaceName === null ? 'organization' : 'workspace'] ?? {}
    const defaults = tenantLimits[workspaceName === null ? 'organization' : 'workspace']
    const tenant = { organizationId, userId, ...(workspaceName !== null && { workspaceName }) }
    const used: Record<TenantLimitName, number> = {
      pointsPerMinute: stored.points,
      fileBytesMax: stored.fileBytes,
      experimentsMax: stored.experiments,
      streamsMax: tenants.inUse(tenant, 'streamsMax'),
      exportsMax: tenants.inUse(tenant, 'exportsMax'),
      queriesMax: tenants.inUse(tenant, 'queriesMax'),
    }
    return tenantLimitNames.map((name) => ({ name, used: used[name], max: given[name] ?? defaults[name] ?? null }))
  }

  return [
    route({
      method: 'GET',
      path: '/workspace/usage',
      permission: 'caller',
      topic: 'Workspaces and projects',
      summary: 'Reads what a workspace uses of its limits now, and what its organization uses of its own.',
      query: object({ workspaceName }),
      answer: z.object({ workspace: usedAnswer, organization: usedAnswer }),
      shape: 'plain',
      async handle({ query, caller }) {
        const { organizationId, userId } = caller
        // Admins see all of their organization, also what they are no members of.
        const ofOrganization =
          caller.isAdmin && caller.place === null
            ? await findOrganizationWorkspace(database, { organizationId, ...query })
            : undefined
        const { name } = ofOrganization
          ? { name: query.workspaceName }
          : await access.workspace(caller, query.workspaceName)
        const [workspace, organization] = await Promise.all([
          read(organizationId, userId, name),
          read(organizationId, userId, null),
        ])
        return { workspace, organization }
      },
    }),
  ]
}
