/** Adds the cause to an error of the object store, whose message only says that the store is unavailable. */
export function explainBackupError(error: unknown): unknown {
  if (!(error instanceof Error) || error.name !== 'StoreAway') return error
  const cause = error.cause as NodeJS.ErrnoException | undefined
  if (cause?.code === 'ENOSPC') {
    return new Error('The disk of the backup is full: free some space or choose another place.', { cause: error })
  }
  return new Error(`${error.message}: ${cause?.message ?? 'it does not answer'}`, { cause: error })
}
