import type { ClickHouse } from '../clickhouse/connection.ts'
import { countFeatures, listFeatureNames } from '../clickhouse/monitoring/features.ts'
import {
  type ClassQuality,
  type LabelledWindow,
  readClasses,
  readErrors,
} from '../clickhouse/monitoring/label-quality.ts'
import type { EventScope, Windows } from '../clickhouse/monitoring/scope.ts'

export const tasks = ['classification', 'regression'] as const
type Task = (typeof tasks)[number]

/** What is judged: names of a prediction and a label, and as what. */
export type Judgement = { prediction: string; label: string; task: Task }

/** Why it cannot be told what to judge, with the field of a request to change. */
export type JudgementFault = { fault: string; isUnknown: boolean }

type Asked = { prediction?: string | undefined; label?: string | undefined; task?: Task | undefined }

/**
 * Finds what belongs together: a label and the prediction of its name, or those called `value`, or the only ones. Undefined
 * while there is no prediction or no label at all.
 */
export async function findJudgement(
  clickhouse: ClickHouse,
  scope: EventScope,
  asked: Asked,
): Promise<Judgement | JudgementFault | undefined> {
  const whole = { modelId: scope.modelId, kind: scope.kind }
  const names = await listFeatureNames(clickhouse, whole, ['prediction', 'label'])
  const of = (part: 'prediction' | 'label') => names.filter((it) => it.part === part).map((it) => it.name)
  if (of('prediction').length === 0 || of('label').length === 0) return undefined
  const label = choose('label', asked.label, of('label'), [asked.prediction ?? 'value', 'value'])
  if (typeof label !== 'string') return label
  const prediction = choose('prediction', asked.prediction, of('prediction'), [label, 'value'])
  if (typeof prediction !== 'string') return prediction
  if (asked.task) return { prediction, label, task: asked.task }
  const [counted] = await countFeatures(clickhouse, whole, [{ part: 'label', name: label }])
  return { prediction, label, task: counted?.type === 'categorical' ? 'classification' : 'regression' }
}

function choose(field: string, asked: string | undefined, known: string[], likely: string[]): string | JudgementFault {
  const shown = known
    .slice(0, 10)
    .map((it) => it.slice(0, 100))
    .join(', ')
  if (asked !== undefined) {
    if (known.includes(asked)) return asked
    return { fault: `${field}: the model has none of this name: it has ${shown}.`, isUnknown: true }
  }
  const found = likely.find((it) => known.includes(it)) ?? (known.length === 1 ? known[0] : undefined)
  if (found !== undefined) return found
  return { fault: `${field}: is missing, and the model has more than one: send one of ${shown}.`, isUnknown: false }
}

export type Quality = LabelledWindow &
  Partial<Record<'accuracy' | 'precision' | 'recall' | 'f1', number | null>> &
  Partial<Record<'meanAbsoluteError' | 'rootMeanSquaredError' | 'bias', number | null>> & {
    classes?: ClassQuality[]
    classCount?: number
  }

/** Reads what a judgement says of each window that has predictions. */
export async function readQuality(
  clickhouse: ClickHouse,
  { scope, windows, judgement, top }: { scope: EventScope; windows: Windows; judgement: Judgement; top: number },
): Promise<Quality[]> {
  const judged = { scope, windows, prediction: judgement.prediction, label: judgement.label }
  return judgement.task === 'regression'
    ? await readErrors(clickhouse, judged)
    : await readClasses(clickhouse, judged, top)
}
