import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, it } from 'vitest'
import { parseSettings } from '../../cli/settings.ts'
import { createCertificate } from '../kit/http/receiver.ts'
import { uniqueName } from '../kit/service.ts'

it('private hosts are kept as URLs spell them, with the port where one was given', () => {
  const hosts = 'Hooks.Internal, 10.0.0.5:8443,0x7f.1 [::1] [0:0::1]:443, b.internal:443'
  expect([...parseSettings({ SVC_WEBHOOK_PRIVATE_HOSTS: hosts }).webhookPrivateHosts]).toEqual([
    'hooks.internal',
    '10.0.0.5:8443',
    '127.0.0.1',
    '[::1]',
    '[::1]:443',
    'b.internal:443',
  ])
  expect([...parseSettings({}).webhookPrivateHosts]).toEqual([])
})

it.each(['https://a.internal', 'a.internal/path', 'user@a.internal', 'a:b', '10.0.0.0/8', '::1', '*'])(
  'names %s, which is no host',
  (host) => {
    const parse = () => parseSettings({ SVC_WEBHOOK_PRIVATE_HOSTS: `a.internal,${host}` })
    expect(parse).toThrow(`must be a list of host or host:port, but contains ${JSON.stringify(host)}`)
  },
)

it('a certificate authority is read when the settings are; a file that is none is named', async () => {
  const { cert, settings } = await createCertificate()
  expect(parseSettings({ SVC_WEBHOOK_CA_FILE: settings.SVC_WEBHOOK_CA_FILE }).webhookExtraCa).toBe(cert)
  const other = path.join(tmpdir(), uniqueName('none'))
  expect(() => parseSettings({ SVC_WEBHOOK_CA_FILE: other })).toThrow(/SVC_WEBHOOK_CA_FILE: cannot be read: ENOENT/)
  await writeFile(other, 'x')
  expect(() => parseSettings({ SVC_WEBHOOK_CA_FILE: other })).toThrow('must be a PEM file of certificates')
})
