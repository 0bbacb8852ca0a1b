import { createServer } from 'node:net'

type Address = { host: string; port: number }

/**
 * Checks that the address can be listened on, so that a port in use is reported before stores start.
 *
 * @throws Error with advice
 */
export async function checkPort(address: Address): Promise<void> {
  const server = createServer()
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(address.port, address.host, resolve)
    })
  } catch (error) {
    throw explainListenError(error, address)
  } finally {
    server.close()
  }
}

/** Turns an error of `listen` into advice. */
export function explainListenError(error: unknown, { host, port }: Address): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'EADDRINUSE') {
    return new Error(
      `Port ${port} is in use on ${host}. Stop the program that uses it, or choose another port with SVC_PORT.`,
    )
  }
  if (code === 'EACCES')
    return new Error(`No permission to listen on port ${port}. Choose one above 1023 with SVC_PORT.`)
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    return new Error(`This machine has no address ${host}. Set SVC_HOST (127.0.0.1, or 0.0.0.0 for all addresses).`)
  }
  return error
}
