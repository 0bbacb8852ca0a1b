import { connect, createServer, type Socket } from 'node:net'

/**
 * A TCP proxy between the service and a store. It simulates an outage without touching the store.
 */
export async function openProxy(storeUrl: string) {
  const target = new URL(storeUrl)
  const sockets = new Set<Socket>()
  let isCut = false
  let isFrozen = false
  /** Those that break with what is sent on them next. */
  const stale = new Set<Socket>()

  const server = createServer((inner) => {
    if (isCut) return void inner.destroy()
    const outer = connect(Number(target.port), target.hostname)
    for (const [from, to] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      sockets.add(from)
      from.on('data', (chunk) => {
        if (stale.has(from)) from.resetAndDestroy()
        else if (!isFrozen) to.write(chunk)
      })
      from.on('error', () => undefined)
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = new URL(storeUrl)
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as { port: number }).port)

  return {
    url: url.href,
    /** Breaks all connections and refuses new ones. */
    cut() {
      isCut = true
      for (const socket of sockets) socket.destroy()
    },
    /** Breaks each connection that is open now when it is used again, as a store that has just closed it. */
    endIdle() {
      for (const socket of sockets) stale.add(socket)
    },
    /** Keeps connections open and drops all data, as when the store hangs. */
    freeze() {
      isFrozen = true
    },
    /** Ends the outage. Breaks frozen connections, which have lost data. */
    restore() {
      if (isFrozen) for (const socket of sockets) socket.destroy()
      isCut = false
      isFrozen = false
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
