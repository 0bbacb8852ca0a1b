import { countFeatures, listFeatureNames } from '../features.ts'
import type { EventReader } from '../reader.ts'
import type { ModelEvents } from '../scope.ts'
import { type ValuePart, valueParts } from '../tables.ts'
import { type ModelColumn, toColumn } from './model-table.ts'

const parts = Object.keys(valueParts) as ValuePart[]

/**
 * The columns of a model as a table: all, or those whose names are in one of some texts. A column is numeric if most of its
 * values of all time are numbers.
 */
export async function listColumns(reader: EventReader, modelId: bigint, texts?: string[]): Promise<ModelColumn[]> {
  const whole: ModelEvents = { modelId, kind: 'EVENTS' }
  const names = await listFeatureNames(reader, whole, parts)
  // A checked text has escapes where a name has a quote.
  const plain = (text: string) => text.replaceAll('\\', '')
  const all = texts?.map(plain)
  const chosen = all ? names.filter((it) => all.some((text) => text.includes(plain(toColumn(it))))) : names
  const counted = await countFeatures(reader, whole, chosen)
  return counted.map(({ part, name, type }) => ({ part, name, type, column: toColumn({ part, name }) }))
}
