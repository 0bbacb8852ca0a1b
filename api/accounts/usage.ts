import { z } from 'zod'
import { object } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { countSeries, type SeriesTotals } from '../../store/clickhouse/points/series-counts.ts'
import { dataTypes, type GivenLimits, rateLimitNames } from '../../store/limits.ts'
import { listHeld, listUsage } from '../../store/postgres/accounts/usage.ts'
import { findOrganizationWorkspace, listOrganizationWorkspaces } from '../../store/postgres/accounts/workspaces.ts'
import { sumWorkspaceBytes } from '../../store/postgres/assets/assets.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { RateLimits } from '../../throttle/throttle.ts'
import { workspaceName } from './workspaces.ts'

const topic = 'Administration'

/** Of each data type. */
const listedMax = 10
const heldForMs = 3_600_000

type Deps = {
  database: Database
  clickhouse: ClickHouse
  rateLimits: RateLimits
  seriesLimits: SeriesLimits
  workspaceBytesMax: number | undefined
}

type SeriesLimits = Required<Pick<GivenLimits, 'metricNamesMax' | 'pointsPerMetricMax'>>

const given = z.enum(['project', 'workspace', 'service']).describe('where the limit is set')

/** What the workspaces of an organization use of their limits. */
export function createUsageRoutes(deps: Deps): Route[] {
  const { database, clickhouse, rateLimits, seriesLimits, workspaceBytesMax } = deps
  return [
    route({
      method: 'GET',
      path: '/admin/workspaces',
      permission: 'auditor',
      topic,
      summary: 'Lists the workspaces of the organization by name, also those that the caller is no member of.',
      answer: z.object({
        workspaces: z.array(
          z.object({
            workspaceName: z.string(),
            members: z.int().describe('people and restricted service accounts'),
            projects: z.int(),
          }),
        ),
      }),
      shape: 'plain',
      async handle({ caller }) {
        return { workspaces: await listOrganizationWorkspaces(database, caller.organizationId) }
      },
    }),

    route({
      method: 'GET',
      path: '/admin/usage',
      permission: 'auditor',
      topic,
      summary:
        `Reads what a workspace uses of its limits now: for each data type the ${listedMax} experiments (for events: models) ` +
        'that sent the most in the last minute, the metrics of these experiments, what was throttled in the last hour, and the bytes ' +
        'of its files.',
      query: object({ workspaceName }),
      answer: z.object({
        types: z.array(
          z.object({
            type: z.enum(dataTypes),
            perMinute: z.int().describe('the limit of each experiment, or model, of the workspace'),
            given,
            senders: z
              .array(
                z.object({
                  experimentKey: z.string().nullable().describe('null for a model'),
                  projectName: z.string().nullable(),
                  name: z.string(),
                  lastMinute: z
                    .int()
                    .describe('accepted in the last 60 seconds; counted every two seconds, so a little behind'),
                  perMinute: z.int(),
                  given,
                }),
              )
              .describe('those that sent the most first'),
          }),
        ),
        experiments: z
          .array(
            z.object({
              experimentKey: z.string(),
              projectName: z.string(),
              name: z.string(),
              metricNames: z.int().describe('stored; each context of a name counts'),
              metricNamesMax: z.int(),
              pointsMost: z.int().describe('stored points of the metric with the most'),
              pointsPerMetricMax: z.int(),
            }),
          )
          .describe('what the senders of metrics have of the limits by count'),
        throttled: z.array(
          z.object({
            experimentKey: z.string(),
            projectName: z.string(),
            name: z.string(),
            reason: z.string(),
            lastAt: z.int().describe('ms since the Unix epoch'),
          }),
        ),
        fileBytes: z.int().describe('of assets'),
        fileBytesMax: z.int().nullable().describe('null when there is no limit'),
      }),
      shape: 'plain',
      async handle({ query: { workspaceName }, caller: { organizationId } }) {
        const workspace = await findOrganizationWorkspace(database, { organizationId, workspaceName })
        if (!workspace) {
          throw new HttpError('workspaceUnknown', `There is no workspace "${workspaceName}" in your organization.`)
        }
        const workspaceId = workspace.id
        const [usage, held, fileBytes] = await Promise.all([
          listUsage(database, { workspaceId, limit: listedMax }),
          listHeld(database, { workspaceId, limit: listedMax, sinceMs: Date.now() - heldForMs }),
          sumWorkspaceBytes(database, { workspaceId }),
        ])
        const experiments = usage.filter((it) => it.type === 'metrics')
        const ids = experiments.map((it) => it.experimentId as bigint)
        const counts = ids.length === 0 ? new Map<bigint, SeriesTotals>() : await countSeries(clickhouse, ids)
        return {
          experiments: experiments.map(({ experimentId, experimentKey, projectName, name, projectLimits }) => {
            const { series = 0, pointsMost = 0 } = counts.get(experimentId as bigint) ?? {}
            return {
              experimentKey: experimentKey as string,
              projectName: projectName as string,
              name,
              metricNames: series,
              pointsMost,
              ...seriesLimits,
              ...pickSeriesLimits(workspace.limits),
              ...pickSeriesLimits(projectLimits),
            }
          }),
          types: dataTypes.map((type) => ({
            type,
            ...toLimit(rateLimits, type, workspace.limits),
            senders: usage
              .filter((it) => it.type === type)
              .map(({ experimentKey, projectName, name, lastMinute, projectLimits }) => ({
                experimentKey,
                projectName,
                name,
                lastMinute: Math.round(lastMinute),
                ...toLimit(rateLimits, type, workspace.limits, projectLimits),
              })),
          })),
          throttled: held.map(({ lastAtMs, ...it }) => ({ ...it, lastAt: Number(lastAtMs) })),
          fileBytes: Number(fileBytes),
          fileBytesMax: workspaceBytesMax ?? null,
        }
      },
    }),
  ]
}

function pickSeriesLimits({ metricNamesMax, pointsPerMetricMax }: GivenLimits): Partial<SeriesLimits> {
  return { ...(metricNamesMax && { metricNamesMax }), ...(pointsPerMetricMax && { pointsPerMetricMax }) }
}

/** The limit that holds: the nearest one that is set. */
function toLimit(service: RateLimits, type: keyof RateLimits, workspace: GivenLimits, project: GivenLimits = {}) {
  const name = rateLimitNames[type]
  if (project[name] !== undefined) return { perMinute: project[name], given: 'project' as const }
  if (workspace[name] !== undefined) return { perMinute: workspace[name], given: 'workspace' as const }
  return { perMinute: service[type], given: 'service' as const }
}
