import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { countEvents } from '../../store/clickhouse/monitoring/event-counts.ts'
import { countFeatures, listFeatureNames } from '../../store/clickhouse/monitoring/features.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import type { EventScope } from '../../store/clickhouse/monitoring/scope.ts'
import { readMetricWindow } from '../../store/clickhouse/points/windows.ts'
import { readDrift } from '../../store/monitoring/drift-report.ts'
import { judge, type MeasureName, measureNames, thresholdDefaults } from '../../store/monitoring/drift-verdict.ts'
import { findJudgement, type Quality, readQuality } from '../../store/monitoring/judgement.ts'
import { findReference } from '../../store/monitoring/reference.ts'
import type { Queries } from '../../store/postgres/database.ts'
import type { AlertRule, Found } from '../../store/postgres/monitoring/alerts.ts'
import { findMonitoredModel } from '../../store/postgres/monitoring/models.ts'

type Deps = { queries: Queries; clickhouse: ClickHouse; eventReader: EventReader }
type Stretch = { fromMs: number; toMs: number }

/** The values to compare with the threshold, or why there are none. */
type Measured = { values: Found[] } | { problem: string }

/**
 * Evaluates a rule for one window: the values that crossed the threshold, the worst first. If nothing can be measured, there
 * are none, and `problem` says why.
 */
export async function evaluateWindow(
  deps: Deps,
  rule: AlertRule,
  window: Stretch,
): Promise<{ found: Found[]; problem: string | null }> {
  const measured =
    rule.experimentId === null ? await measureModel(deps, rule, window) : await measureMetric(deps, rule, window)
  if ('problem' in measured) return { found: [], problem: measured.problem }
  const sign = rule.comparison === 'above' ? 1 : -1
  const found = measured.values
    .filter((it) => sign * it.value > sign * rule.threshold)
    .toSorted((a, b) => sign * (b.value - a.value))
  return { found, problem: null }
}

const one = (value: number | null | undefined): Measured => ({
  values: value == null ? [] : [{ feature: null, part: null, value }],
})

async function measureMetric(
  { clickhouse }: Deps,
  { experimentId, experimentEndMs, measure, comparison, details }: AlertRule,
  window: Stretch,
): Promise<Measured> {
  // A run that has ended reports no more points: not a problem.
  if (experimentEndMs !== null && experimentEndMs <= window.fromMs) return { values: [] }
  const { metricName = '', context } = details
  const wanted = { experimentId: experimentId as bigint, metric: metricName, context, ...window }
  const { points, nans, least, greatest } = await readMetricWindow(clickhouse, wanted)
  if (measure === 'metricPoints') return one(points)
  if (measure === 'metricNaN') return one(nans)
  return one(comparison === 'above' ? greatest : least)
}

async function measureModel(deps: Deps, rule: AlertRule, { fromMs, toMs }: Stretch): Promise<Measured> {
  const { queries, eventReader } = deps
  const { details, measure } = rule
  const model = await findMonitoredModel(queries, rule.workspaceId, rule.modelName as string)
  // For a model that never reported, only the number of events is known: 0.
  if (!model) return measure === 'events' ? one(0) : { problem: 'the model has not reported yet' }
  const whole: EventScope = { modelId: model.id, kind: 'EVENTS', version: details.modelVersion }
  const scope: EventScope = { ...whole, from: fromMs, to: toMs }
  if (measure === 'events') return one((await countEvents(eventReader, scope)).events)
  if (isDrift(measure)) return await measureDrift(deps, rule, scope, { from: fromMs, to: toMs })
  if (measure === 'missingShare') {
    const part = details.part ?? 'feature'
    const names =
      details.feature === undefined
        ? await listFeatureNames(eventReader, whole, [part])
        : [{ part, name: details.feature }]
    const counted = await countFeatures(eventReader, scope, names)
    const values = counted
      .filter((it) => it.events > 0)
      .map((it) => ({ feature: it.name, part: it.part, value: it.missing / it.events }))
    return { values }
  }
  const judgement = await findJudgement(eventReader, whole, details)
  if (!judgement) return { problem: 'there are no predictions with labels yet' }
  if ('error' in judgement) return { problem: judgement.error }
  const windows = { from: fromMs, to: toMs, intervalMs: toMs - fromMs }
  const [quality] = await readQuality(eventReader, { scope: whole, windows, judgement, top: 1 })
  if (!quality) return { values: [] }
  if (measure === 'unlabelledShare') return one(1 - quality.labelled / quality.predictions)
  if (!(measure in quality))
    return { problem: `${measure} is not a measure of ${judgement.task}: make a rule with the other task` }
  return one(quality[measure as keyof Quality] as number | null)
}

const isDrift = (measure: string): measure is MeasureName => (measureNames as readonly string[]).includes(measure)

async function measureDrift(
  { queries, eventReader }: Deps,
  { workspaceId, modelName, details, measure }: AlertRule,
  current: EventScope,
  { from, to }: { from: number; to: number },
): Promise<Measured> {
  const { modelVersion, datasetName, feature, part = 'feature' } = details
  const wanted = { workspaceId, modelName: modelName as string, modelVersion, datasetName }
  const reference = await findReference({ queries, reader: eventReader }, wanted)
  if (!reference) return { problem: 'there is no reference data set to compare with' }
  if ((await countEvents(eventReader, current)).events === 0 && part !== 'label') return { values: [] }
  const windows = { from, to, intervalMs: to - from }
  const named = feature === undefined ? undefined : { part, name: feature }
  const report = await readDrift(eventReader, { reference, current, windows, feature: named })
  const values = (report[0]?.features ?? []).flatMap(({ profile, drift }) => {
    const { status } = judge(drift, profile, { thresholds: thresholdDefaults, measure: undefined })
    const value = drift[measure as MeasureName]
    // A measure of a few values is noise.
    if (status !== 'compared' && status !== 'type changed') return []
    return value === null ? [] : [{ feature: profile.name, part: profile.part, value }]
  })
  return { values }
}
