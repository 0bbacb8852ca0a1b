import { connect, createServer, type Socket } from 'node:net'

/**
 * Stands between the service and a store, so that a test can take the store away and bring it back without touching the
 * store itself.
 */
export async function openProxy(storeUrl: string) {
  const target = new URL(storeUrl)
  const sockets = new Set<Socket>()
  let isCut = false
  let isFrozen = false

  const server = createServer((inner) => {
    if (isCut) return void inner.destroy()
    const outer = connect(Number(target.port), target.hostname)
    for (const [from, to] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      sockets.add(from)
      from.on('data', (chunk) => {
        if (!isFrozen) to.write(chunk)
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
    /** The store is gone: connections break, and new ones are refused. */
    cut() {
      isCut = true
      for (const socket of sockets) socket.destroy()
    },
    /** The store hangs: connections stay, nothing comes through. */
    freeze() {
      isFrozen = true
    },
    /** The store is back. What was on the way while it was frozen is lost, so those connections break. */
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
