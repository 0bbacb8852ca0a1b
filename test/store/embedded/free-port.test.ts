import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { findFreePort } from '../../../store/embedded/free-port.ts'

test('a free port is never given twice, and no outgoing connection can take it', async () => {
  const ports: number[] = []
  for (let count = 0; count < 50; count++) ports.push(await findFreePort())
  expect(new Set(ports).size).toBe(50)
  // Linux gives outgoing connections 32768 to 60999, macOS and Windows 49152 to 65535.
  expect(Math.max(...ports)).toBeLessThan(32_768)

  const server = createServer().listen(ports[0], '127.0.0.1')
  await once(server, 'listening')
  server.close()
})
