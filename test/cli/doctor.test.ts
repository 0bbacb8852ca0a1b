import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { openTestService, storesWith } from '../harness/service.ts'
import { aFolder, svc } from './svc-process.ts'

const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function givenStores() {
  const { clickhouseUrl, postgresUrl, objectsUrl = '' } = storesWith('postgres')
  const stores = { CLICKHOUSE_URL: clickhouseUrl, POSTGRES_URL: postgresUrl, OBJECTS_URL: objectsUrl }
  return { ...stores, SVC_PORT: String(await findFreePort()) }
}

describe('svc doctor', () => {
  it('ends with exit code 0 when all is well, and says what it looked at', async () => {
    const env = await givenStores()
    const service = await openTestService({ settings: { SVC_PORT: env.SVC_PORT } })
    onClose(() => service.close())

    const { code, stdout, stderr } = await svc(['doctor'], env, onClose)

    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const name of [
      'settings',
      'Postgres at .*',
      'ClickHouse at .*',
      'objects at .*',
      `service at ${service.url}`,
    ]) {
      expect(stdout).toMatch(new RegExp(`^  ${name} +ok$`, 'm'))
    }
  })

  it('says the same as JSON', async () => {
    const env = await givenStores()
    const service = await openTestService({ settings: { SVC_PORT: env.SVC_PORT } })
    onClose(() => service.close())

    const { code, stdout } = await svc(['doctor', '--json'], env, onClose)

    const report = JSON.parse(stdout)
    expect(code).toBe(0)
    expect(report).toMatchObject({ ok: true, node: process.version, findings: { settings: 'ok' } })
    expect(new Set(Object.values(report.findings))).toEqual(new Set(['ok']))
  })

  it('ends with exit code 1 and names each part that is not well', async () => {
    const away = `127.0.0.1:${await findFreePort()}`
    const env = {
      ...(await givenStores()),
      POSTGRES_URL: `postgres://svc:secret@${away}/svc`,
      REDIS_URL: `redis://${away}`,
      OBJECTS_URL: `s3://access:secret@${away}/bucket?tls=false`,
    }

    const { code, stdout } = await svc(['doctor', '--json'], env, onClose)

    const { ok, findings } = JSON.parse(stdout)
    expect({ code, ok }).toEqual({ code: 1, ok: false })
    expect(findings[`Postgres at ${away}`]).toContain('ECONNREFUSED')
    expect(findings[`objects at ${away}/bucket`]).toContain(`The object store at ${away} cannot be used: `)
    expect(findings[`Redis at ${away}`]).toMatch(/ECONNREFUSED|closed/)
    expect(findings[`ClickHouse at ${new URL(env.CLICKHOUSE_URL).host}`]).toBe('ok')
    expect(findings[`service at http://127.0.0.1:${env.SVC_PORT}`]).toContain(
      'does not answer: start it with "npm start"',
    )
    expect(stdout).not.toContain('secret')
  })

  it('before a first start asks whether the data folder can be made', async () => {
    const folder = path.join(await aFolder(onClose), 'not', 'yet')
    const env = { SVC_DATA_DIR: folder, SVC_PORT: String(await findFreePort()) }

    const { code, stdout } = await svc(['doctor', '--json'], env, onClose)

    expect(code).toBe(1)
    expect(JSON.parse(stdout).findings[`data folder ${folder}`]).toBe('ok')
  })

  it('tells a stranger on the port from the service', async () => {
    const stranger = createServer((_request, answer) => answer.end('hello')).listen(0, '127.0.0.1')
    onClose(() => stranger.close())
    await new Promise((resolve) => stranger.once('listening', resolve))
    const env = { ...(await givenStores()), SVC_PORT: String((stranger.address() as AddressInfo).port) }

    const { code, stdout } = await svc(['doctor'], env, onClose)

    expect(code).toBe(1)
    expect(stdout).toMatch(/service at .* something else than svc answers there/)
  })

  it('tells wrong settings, as JSON too', async () => {
    const wrong = { SVC_PORT: 'x', REDIS_URL: 'y' }

    const { code, stdout } = await svc(['doctor', '--json'], wrong, onClose)

    expect(code).toBe(1)
    expect(JSON.parse(stdout).findings.settings).toMatch(/SVC_PORT: .*\n.*REDIS_URL: /)
    expect((await svc(['doctor'], wrong, onClose)).stdout).toContain('SVC_PORT: must be a port')
  })
})
