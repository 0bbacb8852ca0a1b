import { z } from 'zod'
import { flag, object, optional, pageFields, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  type AlertRule,
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
  graceField,
  newRule,
  ruleAnswer,
  thresholdField,
  toAnswer,
  toStored,
} from './alert-rule.ts'

type Deps = { database: Database; access: Access }

const pageSizeMax = 500

const foundAnswer = z.object({ feature: z.string().nullable(), part: z.string().nullable(), value: z.number() })

const alertParams = object({ alertId: z.uuid('expected the alertId of an answer') })
const ofWorkspace = object({ workspaceName: text(1_000, 1) })

const common = { permission: 'caller', topic: 'Production monitoring', atRoot: true } as const

/** Alert rules and their firings. Every user of the workspace may read and change them. */
export function createMonitoringAlertRoutes({ database, access }: Deps): Route[] {
  return [
    route({
      ...common,
      method: 'POST',
      path: '/mpm/v2/alerts',
      summary:
        'Creates an alert rule. It is evaluated once for each window of time, after the window has ended and its grace has ' +
        'passed, and fires if a measure is above or below a threshold: a measure of a model (drift of each feature, missing ' +
        'share, label quality, number of events) or of a metric of an experiment (greatest or least value, number of NaN, ' +
        'number of points until the run ends). It fires at most once for a window. Webhooks with the trigger ALERT_FIRED, ' +
        'those of the model and those of the whole workspace, are sent {workspaceName, event, alertId, alertName, ' +
        'modelName, modelVersion, experimentKey, metricName, measure, comparison, threshold, windowFrom, windowTo, ' +
        'found: [{feature, part, value}], foundCount, timestamp}.',
      body: newRule,
      answer: z.object({ alertId: z.string() }),
      shape: 'envelope',
      async handle({ body, caller }) {
        const { workspaceId, experiment } = await findOfRule(access, caller, body)
        const alertId = await insertAlertRule(database, {
          ...toStored(body, Date.now()),
          workspaceId,
          experimentId: experiment?.id ?? null,
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
      summary: 'Lists the alert rules of a workspace or of one model, by name.',
      query: object({ ...ofWorkspace.shape, modelName: optional(text(1_000, 1)) }),
      answer: z.object({ alerts: z.array(ruleAnswer) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const { id: workspaceId } = await access.workspace(caller, query.workspaceName)
        const rules = await listAlertRules(database, { workspaceId, modelName: query.modelName })
        return { alerts: rules.map(toAnswer) }
      },
    }),

    route({
      ...common,
      method: 'GET',
      path: '/mpm/v2/alerts/firings',
      summary: 'Lists the firings of a workspace, of one rule or of one model, newest first.',
      query: object({
        ...ofWorkspace.shape,
        modelName: optional(text(1_000, 1)),
        alertId: optional(z.uuid('expected the alertId of an answer')),
        ...pageFields(pageSizeMax),
      }),
      answer: z.object({
        firings: z.array(
          z.object({
            alertId: z.string(),
            name: z.string(),
            modelName: z.string().nullable(),
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
        const { id: workspaceId } = await access.workspace(caller, query.workspaceName)
        const limit = query.pageSize ?? 100
        const found = await listFirings(database, {
          workspaceId,
          ruleId: query.alertId,
          modelName: query.modelName,
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
        const { id: workspaceId } = await access.workspace(caller, body.workspaceName)
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
      summary: 'Deletes an alert rule and its firings. Queued webhooks are still sent.',
      params: alertParams,
      query: ofWorkspace,
      answer: z.object({ alertId: z.string() }),
      shape: 'envelope',
      async handle({ query, params, caller }) {
        const { id: workspaceId } = await access.workspace(caller, query.workspaceName)
        await requireRule(database, workspaceId, params.alertId)
        await deleteAlertRule(database, params.alertId)
        return { alertId: params.alertId }
      },
    }),
  ]
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
