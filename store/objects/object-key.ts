import { randomUUID } from 'node:crypto'

/**
 * A unique key, independent of the content. The first two digits spread the files over 256 folders.
 */
export function createObjectKey(): string {
  const id = randomUUID()
  return `${id.slice(0, 2)}/${id}`
}
