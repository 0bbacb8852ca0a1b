import { HttpError } from '../../http/errors.ts'
import { type FieldFault, type Item, readItem, type Scalars } from './event.ts'

/** What is wrong with an item of a batch: where it stands, which field, and what to do about it. */
type Fault = FieldFault & { index: number }

/** The items of a batch that are right, where each stands, and what is wrong with the others. */
export type Batch = { items: Item[]; places: number[]; faults: Fault[]; rejected: Set<number>; raw: unknown[] }

const itemsMax = 50_000
/** Two bytes of JSON make a scalar of 40 bytes: a limit on the body alone would not do. */
const scalarsInAllMax = 2_000_000

/**
 * Reads every item of a batch; a wrong one does not sink the others.
 *
 * @throws HttpError `badRequest` when it is no batch at all, `tooLarge`
 */
export function readBatch(body: unknown, labelsOnly: boolean): Batch {
  const raw = typeof body === 'object' && body !== null ? (body as { data?: unknown }).data : undefined
  if (raw == null) throw new HttpError('badRequest', 'data: is missing (a list of events)')
  if (!Array.isArray(raw)) throw new HttpError('badRequest', 'data: expected a list of events')
  if (raw.length > itemsMax) {
    throw new HttpError('tooLarge', `data: has ${raw.length} items; send at most ${itemsMax} in one request`)
  }
  const batch: Batch = { items: [], places: [], faults: [], rejected: new Set(), raw }
  let scalars = 0
  for (let index = 0; index < raw.length; index++) {
    const found: FieldFault[] = []
    const item = readItem(raw[index], labelsOnly, found)
    if (item) {
      batch.items.push(item)
      batch.places.push(index)
      scalars += count(item.features) + count(item.prediction) + count(item.labels)
      if (scalars > scalarsInAllMax) {
        throw new HttpError(
          'tooLarge',
          `data: has more than ${scalarsInAllMax} values; send fewer events in one request`,
        )
      }
    } else rejectItem(batch, index, found)
  }
  return batch
}

export function rejectItem({ faults, rejected }: Batch, index: number, found: FieldFault[]) {
  rejected.add(index)
  for (const { field, msg } of found) faults.push({ index, field, msg })
}

function count(scalars: Scalars | undefined): number {
  let found = 0
  for (const _ in scalars) found++
  return found
}

/** In words, for messages and for the log. */
export const describeFault = ({ field, msg }: FieldFault) => (field === '' ? msg : `${field}: ${msg}`)
