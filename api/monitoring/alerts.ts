import { z } from 'zod'
import { experimentKey, flag, object, optional, pageFields, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { measureNames } from '../../store/monitoring/drift-verdict.ts'
import { tasks } from '../../store/monitoring/judgement.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  type AlertMeasure,
  type AlertRule,
  alertMeasures,
  alertRulesMax,
  comparisons,
  deleteAlertRule,
  findAlertRule,
  insertAlertRule,
  listAlertRules,
  listFirings,
  metricMeasures,
  updateAlertRule,
} from '../../store/postgres/monitoring/alerts.ts'
import type { Access } from '../access.ts'
import { allParts, partField } from './features.ts'

type Deps = { database: Database; access: Access }

const minuteMs = 60_000
const dayMs = 24 * 3_600_000
const pageSizeMax = 500
/** As many windows back as a new rule may look. */
const windowsBackMax = 100

const expected = (values: readonly string[]) => `must be one of ${values.join(', ')}`
const milliseconds = (least: number, most: number) =>
  z.coerce
    .number('expected an integer')
    .int('expected an integer')
    .min(least, `must be ${least} or more`)
    .max(most, `must be ${most} or fewer`)

const comparisonField = z.enum(comparisons, expected(comparisons))
const thresholdField = z.coerce.number('expected a number')
const graceField = milliseconds(0, 30 * dayMs).describe('how long after its end a window is looked at')

/** Measures of which less is worse. */
const worseBelow: readonly AlertMeasure[] = ['accuracy', 'precision', 'recall', 'f1', 'events', 'metricPoints']
const needsFeature: readonly AlertMeasure[] = [...measureNames, 'missingShare']

/** Thresholds that go without saying; others have to be sent. */
const thresholds: Partial<Record<AlertMeasure, number>> = {
  psi: 0.2,
  jensenShannon: 0.1,
  kolmogorovSmirnov: 0.1,
  wasserstein: 0.1,
  events: 1,
  metricNaN: 0,
  metricPoints: 1,
}

const newRule = object({
  workspaceName: text(1_000, 1),
  name: text(200, 1),
  measure: z.enum(alertMeasures, expected(alertMeasures)),
  modelName: optional(text(1_000, 1)).describe('a model that reports, which may be yet to come; this or experimentKey'),
  modelVersion: optional(text(1_000)),
  feature: optional(text(1_000, 1)).describe('drift and missingShare: only this one; each of them when absent'),
  part: partField.describe('of the feature; feature when absent'),
  datasetName: optional(text(1_000, 1)).describe('drift: the reference'),
  prediction: optional(text(1_000, 1)),
  label: optional(text(1_000, 1)),
  task: optional(z.enum(tasks, expected(tasks))),
  experimentKey: optional(experimentKey),
  metricName: optional(text(2_000, 1)).describe('of the experiment'),
  context: optional(text(1_000, 1)).describe('of the metric; all of them when absent'),
  comparison: optional(comparisonField).describe('when it fires; the worse side when absent'),
  threshold: optional(thresholdField).describe(
    'psi 0.2, other drift 0.1, events and metricPoints 1, metricNaN 0 when absent',
  ),
  windowMs: milliseconds(minuteMs, 90 * dayMs).describe('multiples of it since the Unix epoch are the windows'),
  graceMs: optional(graceField).describe('a minute when absent'),
  from: optional(milliseconds(0, Number.MAX_SAFE_INTEGER)).describe(
    `the first window that is looked at begins then or later, at most ${windowsBackMax} windows ago; the present one when absent`,
  ),
})

const ruleAnswer = z.object({
  alertId: z.string(),
  name: z.string(),
  modelName: z.string().nullable(),
  modelVersion: z.string().nullable(),
  feature: z.string().nullable(),
  part: z.enum(allParts).nullable(),
  datasetName: z.string().nullable(),
  prediction: z.string().nullable(),
  label: z.string().nullable(),
  task: z.enum(tasks).nullable(),
  experimentKey: z.string().nullable(),
  metricName: z.string().nullable(),
  context: z.string().nullable(),
  measure: z.enum(alertMeasures),
  comparison: z.enum(comparisons),
  threshold: z.number(),
  windowMs: z.int(),
  graceMs: z.int(),
  paused: z.boolean(),
  evaluatedTo: z.int().describe('windows that end until then have been looked at; ms since the Unix epoch'),
  problem: z.string().nullable().describe('why the last window could not be measured'),
  userName: z.string(),
  createdAt: z.int(),
})

const foundAnswer = z.object({ feature: z.string().nullable(), part: z.string().nullable(), value: z.number() })

const alertParams = object({ alertId: z.uuid('expected the alertId of an answer') })
const ofWorkspace = object({ workspaceName: text(1_000, 1) })

const common = { permission: 'caller', topic: 'Production monitoring', atRoot: true } as const

/** Rules that fire, and what fired: for whoever may use the workspace. */
export function createMonitoringAlertRoutes({ database, access }: Deps): Route[] {
  return [
    route({
      ...common,
      method: 'POST',
      path: '/mpm/v2/alerts',
      summary:
        'Makes a rule that each window of time is held to once it has ended and had its grace: a measure of a model (drift ' +
        'of each feature, missing share, label quality, number of events) or of a metric of an experiment (its greatest or ' +
        'least value, how many NaN, how many points until its run is over) above or below a threshold. It fires once for a window; webhooks with ' +
        'the trigger ALERT_FIRED are sent {workspaceName, event, alertId, alertName, modelName, modelVersion, ' +
        'experimentKey, metricName, measure, comparison, threshold, windowFrom, windowTo, found: [{feature, part, value}], ' +
        'foundCount, timestamp}: those of the model, and those of the whole workspace.',
      body: newRule,
      answer: z.object({ alertId: z.string() }),
      shape: 'envelope',
      async handle({ body, caller }) {
        const workspace = await access.workspace(caller, body.workspaceName)
        const { measure, windowMs } = body
        const isOfMetric = (metricMeasures as readonly string[]).includes(measure)
        if (isOfMetric && (body.experimentKey === undefined || body.metricName === undefined)) {
          const missing = body.experimentKey === undefined ? 'experimentKey' : 'metricName'
          throw new HttpError(
            'badRequest',
            `${missing}: is missing: ${measure} is measured of a metric of an experiment`,
          )
        }
        if (isOfMetric && body.modelName !== undefined) {
          throw new HttpError('badRequest', `modelName: ${measure} is measured of an experiment: leave it out`)
        }
        if (!isOfMetric && body.modelName === undefined) {
          throw new HttpError('badRequest', `modelName: is missing: ${measure} is measured of a model`)
        }
        if (!isOfMetric && body.experimentKey !== undefined) {
          throw new HttpError('badRequest', `experimentKey: ${measure} is measured of a model: leave it out`)
        }
        if (body.feature !== undefined && !needsFeature.includes(measure)) {
          throw new HttpError('badRequest', `feature: ${measure} is not of a feature: leave it out`)
        }
        const threshold = body.threshold ?? thresholds[measure]
        if (threshold === undefined)
          throw new HttpError('badRequest', `threshold: is missing: ${measure} has no usual one`)
        const experiment =
          body.experimentKey === undefined ? undefined : await access.writableExperiment(caller, body.experimentKey)
        if (experiment && experiment.workspaceName !== workspace.name) {
          throw new HttpError('badRequest', 'experimentKey: is of another workspace: name that one')
        }
        const nowMs = Date.now()
        const present = Math.floor(nowMs / windowMs) * windowMs
        const fromMs = body.from ?? present
        if (fromMs < present - windowsBackMax * windowMs) {
          throw new HttpError('badRequest', `from: must be at most ${windowsBackMax} windows ago`)
        }
        const alertId = await insertAlertRule(database, {
          workspaceId: workspace.id,
          name: body.name,
          modelName: body.modelName ?? null,
          experimentId: experiment?.id ?? null,
          measure,
          comparison: body.comparison ?? (worseBelow.includes(measure) ? 'below' : 'above'),
          threshold,
          details: {
            modelVersion: body.modelVersion,
            feature: body.feature,
            part: body.part,
            datasetName: body.datasetName,
            prediction: body.prediction,
            label: body.label,
            task: body.task,
            metricName: body.metricName,
            context: body.context,
          },
          windowMs,
          graceMs: body.graceMs ?? minuteMs,
          userName: caller.userName,
          nowMs,
          fromMs,
        })
        if (alertId !== undefined) return { alertId }
        throw new HttpError(
          'alertsFull',
          `The workspace has ${alertRulesMax} alert rules, as many as it may: delete some.`,
        )
      },
    }),

    route({
      ...common,
      method: 'GET',
      path: '/mpm/v2/alerts',
      summary: 'Lists the alert rules of a workspace, or those on one model, by name.',
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
      summary: 'Lists what fired in a workspace, of one rule or of one model, the last first.',
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
            found: z.array(foundAnswer).describe('what crossed the threshold, the worst first, a hundred at most'),
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
        return {
          firings: shown.map(({ id: _, ruleId, windowFromMs, windowToMs, firedAtMs, ...it }) => ({
            ...it,
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
        'Changes an alert rule; what is left out stays. One that is resumed (paused: false) goes on with the present window.',
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
      summary: 'Deletes an alert rule and what it fired; webhooks that wait to be sent are sent.',
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

function toAnswer(rule: AlertRule): z.input<typeof ruleAnswer> {
  const {
    id,
    details,
    isPaused,
    evaluatedToMs,
    createdAtMs,
    experimentId: _,
    experimentEndMs: __,
    workspaceId: ___,
    ...it
  } = rule
  return {
    ...it,
    alertId: id,
    modelVersion: details.modelVersion ?? null,
    feature: details.feature ?? null,
    part: details.part ?? null,
    datasetName: details.datasetName ?? null,
    prediction: details.prediction ?? null,
    label: details.label ?? null,
    task: details.task ?? null,
    metricName: details.metricName ?? null,
    context: details.context ?? null,
    paused: isPaused,
    evaluatedTo: evaluatedToMs,
    createdAt: createdAtMs,
  }
}
