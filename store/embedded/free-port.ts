import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** A port of 127.0.0.1 that is free now. Someone may take it before we do, so who uses it must be ready to ask again. */
export async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
