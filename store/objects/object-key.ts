import { randomUUID } from 'node:crypto'

/**
 * A key that no other object has, and that says nothing of what is in it. The first two digits spread a folder's files
 * over 256 folders.
 */
export function createObjectKey(): string {
  const id = randomUUID()
  return `${id.slice(0, 2)}/${id}`
}
