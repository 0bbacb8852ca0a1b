import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { countFeatures, listFeatureNames } from '../../store/clickhouse/monitoring/features.ts'
import { countEvents, type EventScope } from '../../store/clickhouse/monitoring/scope.ts'
import { readMetricWindow } from '../../store/clickhouse/points/windows.ts'
import { readDrift } from '../../store/monitoring/drift-report.ts'
import { judge, type MeasureName, measureNames, thresholdDefaults } from '../../store/monitoring/drift-verdict.ts'
import { findJudgement, type Quality, readQuality } from '../../store/monitoring/judgement.ts'
import { findReference } from '../../store/monitoring/reference.ts'
import type { Queries } from '../../store/postgres/database.ts'
import type { AlertRule, Found } from '../../store/postgres/monitoring/alerts.ts'
import { findMonitoredModel } from '../../store/postgres/monitoring/models.ts'

type Deps = { queries: Queries; clickhouse: ClickHouse }
type Stretch = { fromMs: number; toMs: number }

/** What was measured; or why nothing could be. */
type Measured = { values: Found[] } | { problem: string }

/**
 * Holds one window of time to a rule: what crossed the threshold, the worst first. What cannot be measured crosses nothing,
 * and `problem` says why.
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
  // A run that is over has nothing to tell any more, and that is no fault.
  if (experimentEndMs !== null && experimentEndMs <= window.fromMs) return { values: [] }
  const { metricName = '', context } = details
  const wanted = { experimentId: experimentId as bigint, metric: metricName, context, ...window }
  const { points, nans, least, greatest } = await readMetricWindow(clickhouse, wanted)
  if (measure === 'metricPoints') return one(points)
  if (measure === 'metricNaN') return one(nans)
  return one(comparison === 'above' ? greatest : least)
}

async function measureModel(deps: Deps, rule: AlertRule, { fromMs, toMs }: Stretch): Promise<Measured> {
  const { queries, clickhouse } = deps
  const { details, measure } = rule
  const model = await findMonitoredModel(queries, rule.workspaceId, rule.modelName as string)
  // A model that never reported has no events, and nothing else.
  if (!model) return measure === 'events' ? one(0) : { problem: 'the model has not reported yet' }
  const whole: EventScope = { modelId: model.id, kind: 'EVENTS', version: details.modelVersion }
  const scope: EventScope = { ...whole, from: fromMs, to: toMs }
  if (measure === 'events') return one((await countEvents(clickhouse, scope)).events)
  if (isDrift(measure)) return await measureDrift(deps, rule, scope, { from: fromMs, to: toMs })
  if (measure === 'missingShare') {
    const part = details.part ?? 'feature'
    const names =
      details.feature === undefined
        ? await listFeatureNames(clickhouse, whole, [part])
        : [{ part, name: details.feature }]
    const counted = await countFeatures(clickhouse, scope, names)
    const values = counted
      .filter((it) => it.events > 0)
      .map((it) => ({ feature: it.name, part: it.part, value: it.missing / it.events }))
    return { values }
  }
  const judgement = await findJudgement(clickhouse, whole, details)
  if (!judgement) return { problem: 'there are no predictions with labels yet' }
  if ('fault' in judgement) return { problem: judgement.fault }
  const windows = { from: fromMs, to: toMs, intervalMs: toMs - fromMs }
  const [quality] = await readQuality(clickhouse, { scope: whole, windows, judgement, top: 1 })
  if (!quality) return { values: [] }
  if (measure === 'unlabelledShare') return one(1 - quality.labelled / quality.predictions)
  if (!(measure in quality)) return { problem: `${measure} is no measure of a ${judgement.task}: send the other task` }
  return one(quality[measure as keyof Quality] as number | null)
}

const isDrift = (measure: string): measure is MeasureName => (measureNames as readonly string[]).includes(measure)

async function measureDrift(
  { queries, clickhouse }: Deps,
  { workspaceId, modelName, details, measure }: AlertRule,
  current: EventScope,
  { from, to }: { from: number; to: number },
): Promise<Measured> {
  const { modelVersion, datasetName, feature, part = 'feature' } = details
  const wanted = { workspaceId, modelName: modelName as string, modelVersion, datasetName }
  const reference = await findReference({ queries, clickhouse }, wanted)
  if (!reference) return { problem: 'there is no reference data set to compare with' }
  if ((await countEvents(clickhouse, current)).events === 0 && part !== 'label') return { values: [] }
  const windows = { from, to, intervalMs: to - from }
  const named = feature === undefined ? undefined : { part, name: feature }
  const report = await readDrift(clickhouse, { reference, current, windows, feature: named })
  const values = (report[0]?.features ?? []).flatMap(({ profile, drift }) => {
    const { status } = judge(drift, profile, { thresholds: thresholdDefaults, measure: undefined })
    const value = drift[measure as MeasureName]
    // Of a few values any measure is noise.
    if (status !== 'compared' && status !== 'type changed') return []
    return value === null ? [] : [{ feature: profile.name, part: profile.part, value }]
  })
  return { values }
}
