import { z } from 'zod'
import { experimentKey, integerBetween, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import { measureNames } from '../../store/monitoring/drift-verdict.ts'
import { tasks } from '../../store/monitoring/judgement.ts'
import {
  type AlertMeasure,
  type AlertRule,
  alertMeasures,
  comparisons,
  runMeasures,
} from '../../store/postgres/monitoring/alerts.ts'
import type { Access } from '../access.ts'
import { allParts, partField } from './fields.ts'

const minuteMs = 60_000
const dayMs = 24 * 3_600_000
/** A new rule may begin at most this many windows ago. */
const windowsBackMax = 100

const expected = (values: readonly string[]) => `must be one of ${values.join(', ')}`
export const comparisonField = z.enum(comparisons, expected(comparisons))
export const thresholdField = z.coerce.number('expected a number')
export const graceField = integerBetween(0, 30 * dayMs).describe('how long after its end a window is evaluated')

/** For these measures a lower value is worse. */
const worseBelow: readonly AlertMeasure[] = ['accuracy', 'precision', 'recall', 'f1', 'events', 'metricPoints']
const needsFeature: readonly AlertMeasure[] = [...measureNames, 'missingShare']

/** Defaults; other measures need a threshold. */
const thresholds: Partial<Record<AlertMeasure, number>> = {
  psi: 0.2,
  jensenShannon: 0.1,
  kolmogorovSmirnov: 0.1,
  wasserstein: 0.1,
  events: 1,
  metricNaN: 0,
  metricPoints: 1,
  runCrashed: 0,
}

export const newRule = object({
  workspaceName: text(1_000, 1),
  name: text(200, 1),
  measure: z.enum(alertMeasures, expected(alertMeasures)),
  modelName: optional(text(1_000, 1)).describe(
    'the model, even one without events yet; send this, projectId or experimentKey',
  ),
  modelVersion: optional(text(1_000)),
  feature: optional(text(1_000, 1)).describe('drift and missingShare: only this feature; all when absent'),
  part: partField.describe('the part of the feature; feature when absent'),
  datasetName: optional(text(1_000, 1)).describe('drift: the reference data set'),
  prediction: optional(text(1_000, 1)),
  label: optional(text(1_000, 1)),
  task: optional(z.enum(tasks, expected(tasks))),
  projectId: optional(text(1_000, 1)).describe('the rule is on all runs of this project, also on those to come'),
  experimentKey: optional(experimentKey).describe('the rule is on this run'),
  metricName: optional(text(2_000, 1)).describe('a metric of the run'),
  context: optional(text(1_000, 1)).describe('the context of the metric; all contexts when absent'),
  comparison: optional(comparisonField).describe(
    'whether it fires above or below the threshold; the worse side when absent',
  ),
  threshold: optional(thresholdField).describe(
    'when absent: psi 0.2, other drift 0.1, events and metricPoints 1, metricNaN and runCrashed 0; required for other measures',
  ),
  windowMs: integerBetween(minuteMs, 90 * dayMs).describe(
    'the length of a window; windows begin at multiples of it since the Unix epoch',
  ),
  graceMs: optional(graceField).describe('a minute when absent'),
  from: optional(integerBetween(0, Number.MAX_SAFE_INTEGER)).describe(
    `ms since the Unix epoch, at most ${windowsBackMax} windows ago: the first evaluated window begins then or later; when absent: the current window`,
  ),
})

export const ruleAnswer = z.object({
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
  projectId: z.string().nullable(),
  projectName: z.string().nullable().describe('the project, or that of the run'),
  experimentKey: z.string().nullable(),
  metricName: z.string().nullable(),
  context: z.string().nullable(),
  measure: z.enum(alertMeasures),
  comparison: z.enum(comparisons),
  threshold: z.number(),
  windowMs: z.int(),
  graceMs: z.int(),
  paused: z.boolean(),
  evaluatedTo: z.int().describe('ms since the Unix epoch; windows that end by then have been evaluated'),
  problem: z.string().nullable().describe('why the last window could not be measured'),
  userName: z.string(),
  createdAt: z.int(),
})

export const foundAnswer = z.object({
  feature: z.string().nullable(),
  part: z.string().nullable(),
  value: z.number(),
  experimentKey: z.string().optional().describe('the run, of measures of runs'),
  experimentName: z.string().optional(),
})

type NewRule = z.output<typeof newRule>

/**
 * Checks that the fields of a rule fit its measure.
 *
 * @throws HttpError `badRequest` that names the field
 */
function checkFields(body: NewRule): void {
  const { measure, modelName, experimentKey, projectId, metricName, feature, threshold } = body
  const reject = (message: string) => new HttpError('badRequest', message)
  if ((runMeasures as readonly string[]).includes(measure)) {
    if (modelName !== undefined) throw reject(`modelName: ${measure} is measured of runs: leave it out`)
    if ((experimentKey === undefined) === (projectId === undefined)) {
      throw reject(`experimentKey: ${measure} is measured of a run or of a project: send either it or projectId`)
    }
    if (measure === 'runCrashed' && metricName !== undefined) {
      throw reject('metricName: runCrashed is not of a metric: leave it out')
    }
    if (measure !== 'runCrashed' && metricName === undefined) {
      throw reject(`metricName: is missing: ${measure} is measured of a metric of a run`)
    }
  } else {
    if (modelName === undefined) throw reject(`modelName: is missing: ${measure} is measured of a model`)
    if (experimentKey !== undefined) throw reject(`experimentKey: ${measure} is measured of a model: leave it out`)
    if (projectId !== undefined) throw reject(`projectId: ${measure} is measured of a model: leave it out`)
  }
  if (feature !== undefined && !needsFeature.includes(measure)) {
    throw reject(`feature: ${measure} is not of a feature: leave it out`)
  }
  if (threshold === undefined && thresholds[measure] === undefined) {
    throw reject(`threshold: is missing: ${measure} has no default`)
  }
}

type RuleSubject = { workspaceId: string; experimentId: bigint | null; projectId: string | null }

/**
 * The workspace of a rule, and its run or project if it is about one.
 *
 * @throws HttpError that names the field
 */
export async function findOfRule(access: Access, caller: Caller, body: NewRule): Promise<RuleSubject> {
  const { workspaceName, experimentKey: key, projectId } = body
  const workspace = await access.writableWorkspace(caller, workspaceName)
  checkFields(body)
  const requireIn = (field: string, found: { workspaceName: string }) => {
    if (found.workspaceName === workspace.name) return
    throw new HttpError('badRequest', `${field}: is of another workspace: send the name of that one`)
  }
  const subject: RuleSubject = { workspaceId: workspace.id, experimentId: null, projectId: null }
  if (key !== undefined) {
    const experiment = await access.writableExperiment(caller, key)
    requireIn('experimentKey', experiment)
    return { ...subject, experimentId: experiment.id }
  }
  if (projectId === undefined) return subject
  const project = await access.writableProject(caller, { projectId })
  requireIn('projectId', project)
  return { ...subject, projectId: project.projectId }
}

/**
 * The stored form of a rule whose fields were checked, with its defaults.
 *
 * @throws HttpError `badRequest` if `from` is too long ago
 */
export function toStored(body: NewRule, nowMs: number) {
  const { name, measure, windowMs } = body
  const present = Math.floor(nowMs / windowMs) * windowMs
  const fromMs = body.from ?? present
  if (fromMs < present - windowsBackMax * windowMs) {
    throw new HttpError('badRequest', `from: must be at most ${windowsBackMax} windows ago`)
  }
  return {
    name,
    modelName: body.modelName ?? null,
    measure,
    comparison: body.comparison ?? (worseBelow.includes(measure) ? ('below' as const) : ('above' as const)),
    threshold: body.threshold ?? (thresholds[measure] as number),
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
    nowMs,
    fromMs,
  }
}

export function toAnswer(rule: AlertRule): z.input<typeof ruleAnswer> {
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
