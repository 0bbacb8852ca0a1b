import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

// Below the ephemeral ports of Linux, macOS and Windows: an outgoing connection could take one of those before the server
// starts on it.
const firstPort = 20_000
const lastPort = 29_999

const given = new Set<number>()

/** The server that a port is for listens on it by then. */
const keptForMs = 60_000

/** A free port of 127.0.0.1, which no process of ours gets again within a minute. */
export async function findFreePort(): Promise<number> {
  for (let attempt = 0; attempt < 1000; attempt++) {
    const port = randomInt(firstPort, lastPort + 1)
    if (given.has(port) || !(await isFree(port)) || !(await keep(port))) continue
    given.add(port)
    return port
  }
  throw new Error(`No free port of 127.0.0.1 between ${firstPort} and ${lastPort}`)
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
  } catch {
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}

/**
 * Keeps a port from other processes that look for one until a server listens on it: by a socket for UDP, of which a port has one, and
 * which ends with this process. Two that start at once would get the same port now and then.
 *
 * @returns false if another process keeps it
 */
async function keep(port: number): Promise<boolean> {
  const socket = createSocket('udp4')
  try {
    const bound = once(socket, 'listening')
    socket.bind({ port, address: '127.0.0.1', exclusive: true })
    await bound
  } catch (error) {
    socket.close()
    // A system without UDP has ports all the same.
    return (error as NodeJS.ErrnoException).code !== 'EADDRINUSE'
  }
  socket.unref()
  setTimeout(() => socket.close(), keptForMs).unref()
  return true
}
