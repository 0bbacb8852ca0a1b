export type Timer = ReturnType<typeof setTimeout>

/** A timer that does not keep a process of Node alive. */
export function setQuietTimeout(work: () => void, ms: number): Timer {
  const timer = setTimeout(work, ms)
  const ofNode = timer as unknown as { unref?(): void }
  ofNode.unref?.()
  return timer
}

/** Resolves after a time, or once the signal is aborted. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise<void>((resolve) => {
    const timer = setQuietTimeout(done, ms)
    function done() {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    signal.addEventListener('abort', done)
  })
}
