import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import zlib from 'node:zlib'

/** A span as the collector got it: ids in hex, attributes of the span alone. */
export type CollectedSpan = {
  service: string
  traceId: string
  spanId: string
  parentId: string
  name: string
  kind: number
  attributes: Record<string, string | number>
  links: { traceId: string; spanId: string }[]
  isError: boolean
}

/** A collector that takes traces by OTLP over HTTP, as protobuf, and keeps them in memory. */
export async function openCollector() {
  const spans: CollectedSpan[] = []
  const bodies: Buffer[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const sent = Buffer.concat(chunks)
    const body = request.headers['content-encoding'] === 'gzip' ? zlib.gunzipSync(sent) : sent
    if (request.url !== '/v1/traces' || request.headers['content-type'] !== 'application/x-protobuf') {
      response.statusCode = 415
      return response.end()
    }
    bodies.push(body)
    spans.push(...readSpans(body))
    response.setHeader('content-type', 'application/x-protobuf')
    response.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    bodies,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export type Collector = Awaited<ReturnType<typeof openCollector>>

/** A message of protobuf: the values of each field, in the order they came. */
type Message = Map<number, (Buffer | bigint)[]>

function readMessage(bytes: Buffer): Message {
  const message: Message = new Map()
  let at = 0
  const readVarint = () => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++] as number
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  const readBytes = (length: number) => {
    at += length
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const key = Number(readVarint())
    const wire = key & 7
    const value = wire === 0 ? readVarint() : readBytes(wire === 1 ? 8 : wire === 5 ? 4 : Number(readVarint()))
    const field = key >> 3
    message.set(field, [...(message.get(field) ?? []), value])
  }
  return message
}

const parts = (message: Message, field: number) => (message.get(field) ?? []).map((it) => readMessage(it as Buffer))
const hex = (message: Message, field: number) => ((message.get(field)?.[0] as Buffer | undefined) ?? '').toString('hex')
const text = (message: Message, field: number) => String(message.get(field)?.[0] ?? '')

/** Field numbers are those of opentelemetry/proto/trace/v1/trace.proto. */
function readSpans(body: Buffer): CollectedSpan[] {
  return parts(readMessage(body), 1).flatMap((resourceSpans) => {
    const [resource] = parts(resourceSpans, 1)
    const service = resource ? String(readAttributes(parts(resource, 1))['service.name']) : ''
    return parts(resourceSpans, 2).flatMap((scope) =>
      parts(scope, 2).map((span) => ({
        service,
        traceId: hex(span, 1),
        spanId: hex(span, 2),
        parentId: hex(span, 4),
        name: text(span, 5),
        kind: Number(span.get(6)?.[0] ?? 0),
        attributes: readAttributes(parts(span, 9)),
        links: parts(span, 13).map((link) => ({ traceId: hex(link, 1), spanId: hex(link, 2) })),
        isError: parts(span, 15).some((status) => status.get(3)?.[0] === 2n),
      })),
    )
  })
}

function readAttributes(pairs: Message[]): Record<string, string | number> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [value] = parts(pair, 2)
      const asText = value?.get(1)?.[0]
      return [text(pair, 1), asText === undefined ? Number(value?.get(3)?.[0]) : String(asText)]
    }),
  )
}
