import { chmod, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { openOrganization } from '../api/organization.ts'
import { openOwnStores, openTestService, storesWith, testMasterKey } from '../harness/service.ts'
import { aFolder, svc } from './svc-process.ts'

const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function givenStores() {
  const { clickhouseUrl, postgresUrl, objectsUrl = '' } = storesWith('postgres')
  const stores = {
    CLICKHOUSE_URL: clickhouseUrl,
    POSTGRES_URL: postgresUrl,
    OBJECTS_URL: objectsUrl,
    // Other tests keep secrets in the same Postgres.
    SVC_MASTER_KEY: testMasterKey,
  }
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

  it('tells a master key that is missing, or not the one in use', async () => {
    const own = await openOwnStores('postgres')
    const { SVC_PORT } = await givenStores()
    const env = { CLICKHOUSE_URL: own.clickhouseUrl, POSTGRES_URL: own.postgresUrl, SVC_PORT }
    const { client, organizationId, close } = await openOrganization({ stores: own })
    onClose(close)
    const find = async (key: Record<string, string>) =>
      JSON.parse((await svc(['doctor', '--json'], { ...env, ...key }, onClose)).stdout).findings['master key']

    expect(await find({})).toBe('ok')
    const secret = JSON.stringify({ secretName: 'hook', secretValue: 'x' })
    expect((await client.send('PUT', `/write/organization/${organizationId}/secrets`, secret)).status).toBe(200)

    expect(await find({ SVC_MASTER_KEY: testMasterKey })).toBe('ok')
    expect(await find({})).toContain('set SVC_MASTER_KEY')
    expect(await find({ SVC_MASTER_KEY: Buffer.alloc(32, 9).toString('base64') })).toContain('svc secrets rotate')
  })

  it('tells a master key in the data folder that is damaged, or that others may read', async () => {
    const folder = await aFolder(onClose)
    const file = path.join(folder, 'master-key')
    const find = async () => {
      const env = { SVC_DATA_DIR: folder, SVC_PORT: String(await findFreePort()) }
      return JSON.parse((await svc(['doctor', '--json'], env, onClose)).stdout).findings['master key']
    }

    expect(await find()).toBe('ok')
    await writeFile(file, Buffer.alloc(32, 1).toString('base64'), { mode: 0o644 })
    expect(await find()).toContain(`chmod 600`)
    await chmod(file, 0o600)
    expect(await find()).toBe('ok')
    await writeFile(file, 'short')
    expect(await find()).toContain('is damaged')
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
