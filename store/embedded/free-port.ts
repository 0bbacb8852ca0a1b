import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

// Below the ephemeral ports of Linux, macOS and Windows: an outgoing connection could take one of those before the server
// starts on it.
const firstPort = 20_000
const lastPort = 29_999

const given = new Set<number>()

/** A free port of 127.0.0.1 that this process has not returned before. */
export async function findFreePort(): Promise<number> {
  for (let attempt = 0; attempt < 1000; attempt++) {
    const port = randomInt(firstPort, lastPort + 1)
    if (given.has(port) || !(await isFree(port))) continue
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
