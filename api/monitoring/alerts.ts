import { z } from 'zod'
import { experimentKey, flag, object, optional, pageFields, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  type AlertRule,
  type AlertScope,
  alertMeasures,
  alertRulesMax,
  deleteAlertRule,
  findAlertRule,
  insertAlertRule,
  listAlertRules,
  listFirings,
  updateAlertRule,
} from '../../store/postgres/monitoring/alerts.ts'
import { listToldOfFirings } from '../../store/postgres/webhooks/deliveries.ts'
import { toHost } from '../../store/postgres/webhooks/receivers.ts'
import type { Access } from '../access.ts'
import {
  comparisonField,
  findOfRule,
  foundAnswer,
  graceField,
  newRule,
  ruleAnswer,
  thresholdField,
  toAnswer,
  toStored,
} from './alert-rule.ts'

type Deps = { database: Database; access: Access }

const pageSizeMax = 500

const alertParams = object({ alertId: z.uuid('expected the alertId of an answer') })
const ofWorkspace = object({ workspaceName: text(1_000, 1) })
const ofScope = {
  ...ofWorkspace.shape,
  modelName: optional(text(1_000, 1)),
  projectId: optional(text(1_000, 1)),
  experimentKey: optional(experimentKey),
}

const common = { permission: 'caller', topic: 'Production monitoring', atRoot: true } as const

/** Alert rules and their firings. Every user of the workspace may read and change them. */
export function createMonitoringAlertRoutes({ database, access }: Deps): Route[] {
  return [
    route({
      ...common,
      method: 'POST',
      path: '/mpm/v2/alerts',
      charge: 'call',
      summary:
        'Creates an alert rule. It is evaluated once for each window of time, after the window has ended and its grace has ' +
        'passed, and fires if a measure is above or below a threshold: a measure of a model (drift of each feature, missing ' +
        'share, label quality, number of events), or of a run or all runs of a project (greatest or least value of a ' +
        'metric, number of NaN, number of points while the run goes on, a run that crashed or fell silent). It fires at ' +
        'most once for a window, and for a run again only after a window in which the run did not cross the threshold. ' +
        'Webhooks with the trigger ALERT_FIRED, those of the model and those of the whole workspace, are sent ' +
        '{workspaceName, event, alertId, alertName, modelName, modelVersion, projectName, experimentKey, metricName, ' +
        'measure, comparison, threshold, windowFrom, windowTo, found: [{feature, part, value, experimentKey, ' +
        'experimentName}], foundCount, timestamp, text}; `text` is a sentence, as chats show it.',
      body: newRule,
      answer: z.object({ alertId: z.string() }),
      shape: 'envelope',
      async handle({ body, caller }) {
        const subject = await findOfRule(access, caller, body)
        const alertId = await insertAlertRule(database, {
          ...toStored(body, Date.now()),
          ...subject,
          userName: caller.userName,
        })
        if (alertId !== undefined) return { alertId }
        throw new HttpError(
          'alertsFull',
          `The workspace has reached the limit of ${alertRulesMax} alert rules: delete some.`,
        )
      },
    }),

    route({
      ...common,
      method: 'GET',
      path: '/mpm/v2/alerts',
      summary:
        'Lists the alert rules of a workspace, by name; of one model; of one project and its runs; or of one run, with ' +
        'those of its project.',
      query: object(ofScope),
      answer: z.object({ alerts: z.array(ruleAnswer) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const rules = await listAlertRules(database, await toScope(access, caller, query))
        return { alerts: rules.map(toAnswer) }
      },
    }),

    route({
      ...common,
      method: 'GET',
      path: '/mpm/v2/alerts/firings',
      summary: 'Lists the firings of a workspace, of one rule, model, project or run, newest first.',
      query: object({
        ...ofScope,
        alertId: optional(z.uuid('expected the alertId of an answer')),
        ...pageFields(pageSizeMax),
      }),
      answer: z.object({
        firings: z.array(
          z.object({
            alertId: z.string(),
            name: z.string(),
            modelName: z.string().nullable(),
            projectName: z.string().nullable(),
            experimentKey: z.string().nullable(),
            measure: z.enum(alertMeasures),
            windowFrom: z.int().describe('ms since the Unix epoch'),
            windowTo: z.int(),
            firedAt: z.int(),
            found: z.array(foundAnswer).describe('the values that crossed the threshold, the worst first, at most 100'),
            told: z
              .array(
                z.object({
                  deliveryId: z.string(),
                  host: z.string(),
                  state: z.enum(['pending', 'delivered', 'failed', 'cancelled', 'held']),
                  at: z.int().nullable().describe('of the last attempt; ms since the Unix epoch'),
                  status: z.int().nullable().describe('the HTTP status of its answer'),
                }),
              )
              .describe('the webhooks that were told; deliveries are kept for 30 days'),
          }),
        ),
        nextPage: z.string().nullable(),
      }),
      shape: 'plain',
      async handle({ query, caller }) {
        const scope = await toScope(access, caller, query)
        const limit = query.pageSize ?? 100
        const found = await listFirings(database, {
          ...scope,
          ruleId: query.alertId,
          beforeId: query.page === undefined ? undefined : BigInt(query.page),
          limit: limit + 1,
        })
        const shown = found.slice(0, limit)
        const deliveries = Map.groupBy(
          await listToldOfFirings(
            database,
            shown.map((it) => it.id),
          ),
          (it) => it.firingId,
        )
        return {
          firings: shown.map(({ id, ruleId, windowFromMs, windowToMs, firedAtMs, ...it }) => ({
            ...it,
            told: (deliveries.get(id) ?? []).map(({ firingId: _, deliveryId, url, isHeld, state, ...told }) => ({
              ...told,
              deliveryId: String(deliveryId),
              host: toHost(url),
              state: isHeld ? ('held' as const) : state,
            })),
            alertId: ruleId,
            windowFrom: windowFromMs,
            windowTo: windowToMs,
            firedAt: firedAtMs,
          })),
          nextPage: found.length > limit ? String(shown.at(-1)?.id) : null,
        }
      },
    }),

    route({
      ...common,
      method: 'PUT',
      path: '/mpm/v2/alerts/{alertId}',
      charge: 'call',
      summary:
        'Changes an alert rule. Absent fields stay the same. A resumed rule (paused: false) continues with the current window.',
      params: alertParams,
      body: object({
        ...ofWorkspace.shape,
        name: optional(text(200, 1)),
        threshold: optional(thresholdField),
        comparison: optional(comparisonField),
        graceMs: optional(graceField),
        paused: optional(flag),
      }),
      answer: z.object({ alertId: z.string() }),
      shape: 'envelope',
      async handle({ body, params, caller }) {
        const { id: workspaceId } = await access.writableWorkspace(caller, body.workspaceName)
        const { name, threshold, comparison, graceMs, paused: isPaused } = body
        await requireRule(database, workspaceId, params.alertId)
        await updateAlertRule(database, params.alertId, { name, threshold, comparison, graceMs, isPaused }, Date.now())
        return { alertId: params.alertId }
      },
    }),

    route({
      ...common,
      method: 'DELETE',
      path: '/mpm/v2/alerts/{alertId}',
      charge: 'call',
      summary: 'Deletes an alert rule and its firings. Queued webhooks are still sent.',
      params: alertParams,
      query: ofWorkspace,
      answer: z.object({ alertId: z.string() }),
      shape: 'envelope',
      async handle({ query, params, caller }) {
        const { id: workspaceId } = await access.writableWorkspace(caller, query.workspaceName)
        await requireRule(database, workspaceId, params.alertId)
        await deleteAlertRule(database, params.alertId)
        return { alertId: params.alertId }
      },
    }),
  ]
}

type ScopeQuery = { workspaceName: string; modelName?: string; projectId?: string; experimentKey?: string }

async function toScope(access: Access, caller: Caller, query: ScopeQuery): Promise<AlertScope> {
  const { workspaceName, modelName, projectId, experimentKey: key } = query
  const { id: workspaceId } = await access.workspace(caller, workspaceName)
  const experiment = key === undefined ? undefined : await access.experiment(caller, key)
  return { workspaceId, modelName, projectId, experiment }
}

async function requireRule(
  queries: Parameters<typeof findAlertRule>[0],
  workspaceId: string,
  id: string,
): Promise<AlertRule> {
  const found = await findAlertRule(queries, workspaceId, id)
  if (found) return found
  throw new HttpError('alertUnknown', `The workspace has no alert rule ${id}.`)
}
