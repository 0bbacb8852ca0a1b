import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { generate } from 'selfsigned'

export type Received = { path: string; headers: IncomingHttpHeaders; body: string; json: Record<string, unknown> }

/** What a receiver answers; `hang` never answers, `cut` closes the connection. */
export type Reply = { status: number; headers?: Record<string, string>; body?: string } | 'hang' | 'cut'

/** A certificate for this machine, and the settings with which the service trusts and reaches it. */
export async function createCertificate() {
  const names = [
    { type: 2 as const, value: 'localhost' },
    { type: 7 as const, ip: '127.0.0.1' },
  ]
  const { private: key, cert } = await generate([{ name: 'commonName', value: 'localhost' }], {
    keySize: 2048,
    extensions: [
      { name: 'basicConstraints', cA: true },
      { name: 'subjectAltName', altNames: names },
    ],
  })
  const file = path.join(tmpdir(), `svc-ca-${randomUUID()}.pem`)
  await writeFile(file, cert)
  return { key, cert, settings: { SVC_WEBHOOK_CA_FILE: file, SVC_WEBHOOK_PRIVATE_HOSTS: '127.0.0.1,localhost' } }
}

/**
 * A webhook receiver on this machine: records requests in order of arrival and answers with `toReply`.
 * Its URL is never that of another, closed one, whose port the system may give again while deliveries to it are repeated.
 */
export async function openReceiver(
  { key, cert }: { key: string; cert: string },
  toReply: (received: Received, all: Received[]) => Reply = () => ({ status: 204 }),
) {
  const received: Received[] = []
  const ownPath = `/hook/${randomUUID()}`
  const server = createServer({ key, cert }, (request, response) => {
    if (request.url?.startsWith('/hook/') && !request.url.startsWith(ownPath)) return void request.socket.destroy()
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString()
      const it = { path: request.url ?? '', headers: request.headers, body, json: JSON.parse(body) }
      received.push(it)
      const reply = toReply(it, received)
      if (reply === 'hang') return
      if (reply === 'cut') return void request.socket.destroy()
      response.writeHead(reply.status, reply.headers).end(reply.body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `https://localhost:${port}${ownPath}`,
    port,
    received,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
