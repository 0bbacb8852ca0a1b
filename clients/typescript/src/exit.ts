/** Ends what is open when the process does: each of them once. */
const open = new Set<() => Promise<void>>()
let listens = false
const withSigterm = new Set<() => Promise<void>>()

async function endAll(ends: Set<() => Promise<void>>) {
  await Promise.all([...ends].map((it) => it()))
}

/** There is nothing more to do: what is sent now keeps the process alive until it is done. */
const onBeforeExit = () => void endAll(open)

const onSigterm = () => {
  void endAll(withSigterm).finally(() => {
    process.off('SIGTERM', onSigterm)
    // Others that listen decide by themselves when the process ends.
    if (process.listenerCount('SIGTERM') === 0) process.kill(process.pid, 'SIGTERM')
  })
}

/** @returns forgets it, once it has ended */
export function endAtExit(end: () => Promise<void>, atSigterm: boolean): () => void {
  const call = () => end()
  open.add(call)
  if (!listens) process.on('beforeExit', onBeforeExit)
  listens = true
  if (atSigterm) {
    if (withSigterm.size === 0) process.on('SIGTERM', onSigterm)
    withSigterm.add(call)
  }
  return () => {
    open.delete(call)
    withSigterm.delete(call)
  }
}
