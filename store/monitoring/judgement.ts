import { countFeatures, listFeatureNames } from '../clickhouse/monitoring/features.ts'
import {
  type ClassQuality,
  type LabelledWindow,
  readClasses,
  readErrors,
} from '../clickhouse/monitoring/label-quality.ts'
import type { EventReader } from '../clickhouse/monitoring/reader.ts'
import type { EventScope, Windows } from '../clickhouse/monitoring/scope.ts'

export const tasks = ['classification', 'regression'] as const
type Task = (typeof tasks)[number]

/** The names of a prediction and its label, and how to compare them. */
export type Judgement = { prediction: string; label: string; task: Task }

/** Why there is no judgement, with the field of the request to change; `isUnknown` if the model has no such name. */
export type JudgementError = { error: string; isUnknown: boolean }

type Asked = { prediction?: string | undefined; label?: string | undefined; task?: Task | undefined }

/**
 * Finds the label and the prediction to compare: those asked for, or of the same name, or called `value`, or the only ones.
 * Undefined while the model has no prediction or no label.
 */
export async function findJudgement(
  reader: EventReader,
  scope: EventScope,
  asked: Asked,
): Promise<Judgement | JudgementError | undefined> {
  const whole = { modelId: scope.modelId, kind: scope.kind }
  const names = await listFeatureNames(reader, whole, ['prediction', 'label'])
  const of = (part: 'prediction' | 'label') => names.filter((it) => it.part === part).map((it) => it.name)
  if (of('prediction').length === 0 || of('label').length === 0) return undefined
  const label = choose('label', asked.label, of('label'), [asked.prediction ?? 'value', 'value'])
  if (typeof label !== 'string') return label
  const prediction = choose('prediction', asked.prediction, of('prediction'), [label, 'value'])
  if (typeof prediction !== 'string') return prediction
  if (asked.task) return { prediction, label, task: asked.task }
  const [counted] = await countFeatures(reader, whole, [{ part: 'label', name: label }])
  return { prediction, label, task: counted?.type === 'categorical' ? 'classification' : 'regression' }
}

function choose(field: string, asked: string | undefined, known: string[], likely: string[]): string | JudgementError {
  const shown = known
    .slice(0, 10)
    .map((it) => it.slice(0, 100))
    .join(', ')
  if (asked !== undefined) {
    if (known.includes(asked)) return asked
    return { error: `${field}: the model has none of this name. It has ${shown}.`, isUnknown: true }
  }
  const found = likely.find((it) => known.includes(it)) ?? (known.length === 1 ? known[0] : undefined)
  if (found !== undefined) return found
  return { error: `${field}: is missing, and the model has more than one: send one of ${shown}.`, isUnknown: false }
}

export type Quality = LabelledWindow &
  Partial<Record<'accuracy' | 'precision' | 'recall' | 'f1', number | null>> &
  Partial<Record<'meanAbsoluteError' | 'rootMeanSquaredError' | 'bias', number | null>> & {
    classes?: ClassQuality[]
    classCount?: number
  }

/** Reads the quality of the predictions in each window that has any. */
export async function readQuality(
  reader: EventReader,
  { scope, windows, judgement, top }: { scope: EventScope; windows: Windows; judgement: Judgement; top: number },
): Promise<Quality[]> {
  const judged = { scope, windows, prediction: judgement.prediction, label: judgement.label }
  return judgement.task === 'regression' ? await readErrors(reader, judged) : await readClasses(reader, judged, top)
}
