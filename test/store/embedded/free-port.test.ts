import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
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

test('no two processes that look for ports at the same time get the same one', async () => {
  const module = JSON.stringify(new URL('../../../store/embedded/free-port.ts', import.meta.url).href)
  // Of 300 out of 10,000, two would have nine in common. Each runs until all have looked.
  const script = `
    const { findFreePort } = await import(${module})
    const ports = []
    while (ports.length < 300) ports.push(await findFreePort())
    console.log(JSON.stringify(ports))
    process.stdin.resume()`
  const processes = Array.from({ length: 3 }, () => spawn(process.execPath, ['--input-type=module', '-e', script]))
  try {
    const lines = await Promise.all(processes.map(async (it) => (await once(createInterface(it.stdout), 'line'))[0]))
    expect(new Set(lines.flatMap((it) => JSON.parse(it) as number[])).size).toBe(900)
  } finally {
    for (const it of processes) it.kill()
  }
})
