import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { examine } from '../../cli/doctor/doctor.ts'
import { storesWith } from '../kit/service.ts'

const deploy = new URL('../../deploy/', import.meta.url)

/** What stands after a name in the example: what is written there, or the default of the compose file. */
async function readExample(name: string): Promise<string> {
  const text = await readFile(new URL('.env.example', deploy), 'utf8')
  return new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1] ?? ''
}

async function findExampleSecrets(env: Record<string, string>) {
  const { clickhouseUrl, postgresUrl } = storesWith('postgres')
  const findings = await examine({ CLICKHOUSE_URL: clickhouseUrl, POSTGRES_URL: postgresUrl, ...env })
  const found = findings.find((it) => it.name === 'example secrets')
  return found && `${found.state}: ${found.message}`
}

it('svc doctor names the settings that still have a secret of the example', async () => {
  const password = await readExample('POSTGRES_PASSWORD')
  const finding = await findExampleSecrets({
    SVC_MASTER_KEY: await readExample('SVC_MASTER_KEY'),
    SVC_BOOTSTRAP_API_KEY: await readExample('SVC_BOOTSTRAP_API_KEY'),
    REDIS_URL: `redis://:${password}@127.0.0.1:1`,
  })
  expect(finding).toMatch(/^wrong: /)
  expect(finding).toContain('SVC_BOOTSTRAP_API_KEY, SVC_MASTER_KEY, REDIS_URL still hold')
  expect(finding).not.toContain(password)
})

it('svc doctor says nothing of secrets that were chosen', async () => {
  const finding = await findExampleSecrets({ SVC_MASTER_KEY: Buffer.alloc(32, 5).toString('base64') })
  expect(finding).toBeUndefined()
})

it('the compose file has the same secrets as the example', async () => {
  const compose = await readFile(new URL('compose.yaml', deploy), 'utf8')
  const text = await readFile(new URL('.env.example', deploy), 'utf8')
  const given = [...text.matchAll(/^(\w*(?:PASSWORD|SECRET|KEY)\w*)=(.+)$/gm)]
  expect(given.length).toBeGreaterThan(6)
  for (const [, name, value] of given) {
    const defaults = new Set([...compose.matchAll(new RegExp(`\\$\\{${name}:-([^}]*)\\}`, 'g'))].map((it) => it[1]))
    expect(defaults, name).toEqual(new Set([value]))
  }
})
