import { connect, type Socket } from 'node:net'

/** Opens a raw connection. Its errors are ignored: a broken connection shows in the answers that are missing. */
export function openSocket(url: string): Socket {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  socket.on('error', () => undefined)
  return socket
}
