import type { ClickHouse } from '../clickhouse/connection.ts'
import { countEventsOfWindows } from '../clickhouse/monitoring/event-counts.ts'
import { countMissingOfWindows, listFeatureNames } from '../clickhouse/monitoring/features.ts'
import type { EventReader } from '../clickhouse/monitoring/reader.ts'
import { countWindows, type EventScope, kindOfPart, type Windows } from '../clickhouse/monitoring/scope.ts'
import { readMetricWindows } from '../clickhouse/points/windows.ts'
import type { Queries } from '../postgres/database.ts'
import type { AlertRule, Found } from '../postgres/monitoring/alerts.ts'
import { findMonitoredModel } from '../postgres/monitoring/models.ts'
import { listCrashedRuns, listWatchedRuns } from '../postgres/monitoring/watched-runs.ts'
import { readDriftMap } from './drift-map.ts'
import { readDrift } from './drift-report.ts'
import { judge, type MeasureName, measureNames, thresholdDefaults } from './drift-verdict.ts'
import { findJudgement, type Quality, readQuality } from './judgement.ts'
import { findReference } from './reference.ts'

type Deps = { queries: Queries; clickhouse: ClickHouse; eventReader: EventReader }

/** What of a rule its evaluation depends on: a rule that is not saved can be evaluated, too. */
export type EvaluatedRule = Pick<
  AlertRule,
  'workspaceId' | 'modelName' | 'experimentId' | 'projectId' | 'measure' | 'comparison' | 'threshold' | 'details'
>

/** The values to compare with the threshold in each window, or why there are none. */
type Measured = { values: Found[][] } | { problem: string }

export type Evaluation = {
  /** The values that crossed the threshold, the worst first. */
  found: Found[]
  /** The worst of all values, whether it crossed or not; null if nothing could be measured. */
  worst: Found | null
  /** Why nothing could be measured. */
  problem: string | null
}

/** Evaluates a rule for each window: that of the worker has one, a preview of the past many. */
export async function evaluateWindows(deps: Deps, rule: EvaluatedRule, windows: Windows): Promise<Evaluation[]> {
  const measured =
    rule.modelName === null ? await measureRuns(deps, rule, windows) : await measureModel(deps, rule, windows)
  const sign = rule.comparison === 'above' ? 1 : -1
  return Array.from({ length: countWindows(windows) }, (_, at) => {
    if ('problem' in measured) return { found: [], worst: null, problem: measured.problem }
    const values = (measured.values[at] ?? []).toSorted((a, b) => sign * (b.value - a.value))
    return {
      found: values.filter((it) => sign * it.value > sign * rule.threshold),
      worst: values[0] ?? null,
      problem: null,
    }
  })
}

const one = (value: number | null | undefined): Found[] => (value == null ? [] : [{ feature: null, part: null, value }])

async function measureRuns(deps: Deps, rule: EvaluatedRule, windows: Windows): Promise<Measured> {
  const values: Found[][] = []
  for (let at = 0; at < countWindows(windows); at++) {
    const fromMs = windows.from + at * windows.intervalMs
    values.push(await measureRunsIn(deps, rule, { fromMs, toMs: fromMs + windows.intervalMs }))
  }
  return { values }
}

async function measureRunsIn(
  { queries, clickhouse }: Deps,
  { experimentId, projectId, measure, comparison, details }: EvaluatedRule,
  window: { fromMs: number; toMs: number },
): Promise<Found[]> {
  const wanted = { experimentId, projectId, ...window }
  const ofRun = ({ key, name }: { key: string; name: string }, value: number | null | undefined): Found[] =>
    one(value).map((it) => ({ ...it, experimentKey: key, experimentName: name }))
  if (measure === 'runCrashed') {
    const crashed = await listCrashedRuns(queries, { ...wanted, nowMs: Date.now() })
    return crashed.flatMap((it) => ofRun(it, 1))
  }
  const runs = await listWatchedRuns(queries, wanted)
  const { metricName = '', context } = details
  const experimentIds = runs.map((it) => it.id)
  const read = await readMetricWindows(clickhouse, { experimentIds, metric: metricName, context, ...window })
  return runs.flatMap((run) => {
    const { points = 0, nans = 0, least = null, greatest = null } = read.get(run.id) ?? {}
    if (measure === 'metricPoints') return run.isExpected ? ofRun(run, points) : []
    if (measure === 'metricNaN') return ofRun(run, nans)
    return ofRun(run, comparison === 'above' ? greatest : least)
  })
}

async function measureModel(deps: Deps, rule: EvaluatedRule, windows: Windows): Promise<Measured> {
  const { queries, eventReader } = deps
  const { details, measure } = rule
  const model = await findMonitoredModel(queries, rule.workspaceId, rule.modelName as string)
  // For a model that never reported, only the number of events is known: 0.
  if (!model) {
    return measure === 'events'
      ? { values: Array.from({ length: countWindows(windows) }, () => one(0)) }
      : { problem: 'the model has not reported yet' }
  }
  const whole: EventScope = { modelId: model.id, kind: 'EVENTS', version: details.modelVersion }
  if (measure === 'events') return { values: (await countEventsOfWindows(eventReader, whole, windows)).map(one) }
  if (isDrift(measure)) return await measureDrift(deps, rule, whole, windows)
  if (measure === 'missingShare') return await measureMissing(deps, rule, whole, windows)
  const judgement = await findJudgement(eventReader, whole, details)
  if (!judgement) return { problem: 'there are no predictions with labels yet' }
  if ('error' in judgement) return { problem: judgement.error }
  const read = await readQuality(eventReader, { scope: whole, windows, judgement, top: 1 })
  const values: Found[][] = []
  for (const quality of read) {
    if (measure === 'unlabelledShare') values[quality.window] = one(1 - quality.labelled / quality.predictions)
    else if (measure in quality) values[quality.window] = one(quality[measure as keyof Quality] as number | null)
    else return { problem: `${measure} is not a measure of ${judgement.task}: make a rule with the other task` }
  }
  return { values }
}

async function measureMissing(
  { eventReader }: Deps,
  { details }: EvaluatedRule,
  whole: EventScope,
  windows: Windows,
): Promise<Measured> {
  const part = details.part ?? 'feature'
  const names =
    details.feature === undefined
      ? (await listFeatureNames(eventReader, whole, [part])).map((it) => it.name)
      : [details.feature]
  const scope = { ...whole, kind: kindOfPart(part, whole.kind) }
  const counted = await countMissingOfWindows(eventReader, scope, windows, { part, names })
  return {
    values: counted.map(({ events, missing }) =>
      missing.flatMap((count, f) =>
        events === 0 ? [] : [{ feature: names[f] as string, part, value: count / events }],
      ),
    ),
  }
}

const isDrift = (measure: string): measure is MeasureName => (measureNames as readonly string[]).includes(measure)

async function measureDrift(
  { queries, eventReader }: Deps,
  { workspaceId, modelName, details, measure }: EvaluatedRule,
  current: EventScope,
  windows: Windows,
): Promise<Measured> {
  const { modelVersion, datasetName, feature, part = 'feature' } = details
  const wanted = { workspaceId, modelName: modelName as string, modelVersion, datasetName }
  const reference = await findReference({ queries, reader: eventReader }, wanted)
  if (!reference) return { problem: 'there is no reference data set to compare with' }
  const named = feature === undefined ? undefined : { part, name: feature }
  const query = { reference, current, windows }
  const report = named
    ? await readDrift(eventReader, { ...query, feature: named })
    : await readDriftMap({ queries, reader: eventReader }, query)
  return {
    values: report.map(({ events, features }) => {
      // Labels are events of their own.
      if (events === 0 && part !== 'label') return []
      return features.flatMap(({ profile, drift }) => {
        const { status } = judge(drift, profile, { thresholds: thresholdDefaults, measure: undefined })
        const value = drift[measure as MeasureName]
        // A measure of a few values is noise.
        if (status !== 'compared' && status !== 'type changed') return []
        return value === null ? [] : [{ feature: profile.name, part: profile.part, value }]
      })
    }),
  }
}
