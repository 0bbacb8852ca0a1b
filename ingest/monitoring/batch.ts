import { HttpError } from '../../http/errors.ts'
import { type FieldError, type Item, readItem, type Scalars } from './event.ts'

/** The error of a field, with the index of its item. */
type ItemError = FieldError & { index: number }

export type Batch = {
  /** The items that are right. */
  items: Item[]
  /** `indexes[i]` is the index of `items[i]` in the request. */
  indexes: number[]
  errors: ItemError[]
  /** The indexes of wrong items. */
  rejected: Set<number>
  /** All items as they were sent. */
  raw: unknown[]
}

const itemsMax = 50_000
/** Two bytes of JSON make a scalar of 40 bytes in memory, so a limit on the body is not enough. */
const scalarsMax = 2_000_000

/**
 * Checks every item of a batch. A wrong one is rejected; the others are kept.
 *
 * @throws HttpError `badRequest` when the body is no batch, `tooLarge`
 */
export function readBatch(body: unknown, labelsOnly: boolean): Batch {
  const raw = typeof body === 'object' && body !== null ? (body as { data?: unknown }).data : undefined
  if (raw == null) throw new HttpError('badRequest', 'data: is missing (a list of events)')
  if (!Array.isArray(raw)) throw new HttpError('badRequest', 'data: expected a list of events')
  if (raw.length > itemsMax) {
    throw new HttpError('tooLarge', `data: has ${raw.length} items; send at most ${itemsMax} in one request`)
  }
  const batch: Batch = { items: [], indexes: [], errors: [], rejected: new Set(), raw }
  let scalars = 0
  for (let index = 0; index < raw.length; index++) {
    const found: FieldError[] = []
    const item = readItem(raw[index], labelsOnly, found)
    if (item) {
      batch.items.push(item)
      batch.indexes.push(index)
      scalars += count(item.features) + count(item.prediction) + count(item.labels)
      if (scalars > scalarsMax) {
        throw new HttpError('tooLarge', `data: has more than ${scalarsMax} values; send fewer events in one request`)
      }
    } else rejectItem(batch, index, found)
  }
  return batch
}

export function rejectItem({ errors, rejected }: Batch, index: number, found: FieldError[]) {
  rejected.add(index)
  for (const { field, msg } of found) errors.push({ index, field, msg })
}

function count(scalars: Scalars | undefined): number {
  let found = 0
  for (const _ in scalars) found++
  return found
}

/** One line of text, for messages and for the error log. */
export const describeItemError = ({ field, msg }: FieldError) => (field === '' ? msg : `${field}: ${msg}`)
