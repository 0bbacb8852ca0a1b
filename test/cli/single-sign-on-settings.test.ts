import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { parseSettings } from '../../cli/settings.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'svc-sso-'))
afterAll(() => rmSync(folder, { recursive: true }))

const provider = { id: 'corp', name: 'Corp', issuer: 'https://id.example.com', clientId: 'svc' }
const errorsOf = (document: unknown, more: Record<string, string> = {}): string[] => {
  try {
    const SVC_SSO = typeof document === 'string' ? document : JSON.stringify(document)
    parseSettings({ SVC_PUBLIC_URL: 'https://svc.example.com', ...(document !== undefined && { SVC_SSO }), ...more })
    return []
  } catch (error) {
    return (error as Error).message
      .split('\n')
      .slice(1)
      .map((it) => it.trim())
  }
}

it('names the entry that is wrong', () => {
  const group = { provider: 'corp', group: 'a' }
  const wrong: [unknown, string][] = [
    ['{', 'SVC_SSO: cannot be read as JSON'],
    [{ proxy: {} }, 'SVC_SSO.proxy: needs addresses, or secretEnv or secretFile'],
    [
      { proxy: { addresses: ['10.0.0.1', '10.0.0/8'] } },
      'SVC_SSO.proxy.addresses[1]: is no address or range: "10.0.0/8"',
    ],
    [{ proxy: { addresses: ['127.0.0.1'], trustAll: true } }, 'SVC_SSO.proxy: Unrecognized key: "trustAll"'],
    [{ proxy: { secretEnv: 'NOT_SET' } }, 'SVC_SSO.proxy.secretEnv: the variable NOT_SET is not set'],
    [{ proxy: { secretEnv: 'SHORT' } }, 'SVC_SSO.proxy: the secret must have 16 characters or more'],
    [{ proxy: { secretFile: '/no/such' } }, 'SVC_SSO.proxy.secretFile: cannot be read'],
    [{ proxy: { addresses: ['::1'], keyDays: 0 } }, 'SVC_SSO.proxy.keyDays: must be more than 0'],
    [
      { proxy: { addresses: ['::1'], headers: { user: 'a b' } } },
      'SVC_SSO.proxy.headers.user: must be the name of a header',
    ],
    [{ providers: [{ ...provider, id: 'proxy' }] }, 'SVC_SSO.providers[0].id: must not be "proxy"'],
    [{ providers: [{ ...provider, issuer: 'ftp://x' }] }, 'SVC_SSO.providers[0].issuer: must be a URL'],
    [{ providers: [{ ...provider, clientSecret: 'x' }] }, 'SVC_SSO.providers[0]: Unrecognized key: "clientSecret"'],
    [{ providers: [provider, provider] }, 'SVC_SSO.providers[1].id: "corp" is that of another provider'],
    [
      { providers: [{ ...provider, authorizationParameters: { state: 'x' } }] },
      'SVC_SSO.providers[0].authorizationParameters.state: is set by the service',
    ],
    [
      {
        providers: [provider],
        groups: [
          { ...group, workspace: 'w', role: 'editor' },
          { ...group, provider: 'crop' },
        ],
      },
      'SVC_SSO.groups[1]: must have workspace and role, or organizationRole',
    ],
    [
      { providers: [provider], groups: [{ ...group, provider: 'crop', workspace: 'w', role: 'editor' }] },
      'SVC_SSO.groups[0].provider: is "crop", but the providers are corp',
    ],
    [
      { providers: [provider], groups: [{ ...group, workspace: 'w', role: 'boss' }] },
      'SVC_SSO.groups[0].role: must be one of viewer, editor, owner',
    ],
    [
      { providers: [provider], groups: [{ ...group, organizationRole: 'king' }] },
      'SVC_SSO.groups[0].organizationRole: must be one of auditor, admin',
    ],
    [
      { providers: [provider], groups: [{ ...group, workspace: 'w', role: 'owner', organizationRole: 'admin' }] },
      'SVC_SSO.groups[0]: must have workspace and role, or organizationRole',
    ],
  ]
  for (const [document, message] of wrong) {
    expect(errorsOf(document, { SHORT: 'short' }), JSON.stringify(document)).toContainEqual(
      expect.stringContaining(message),
    )
  }
  const withoutAddress = errorsOf({ providers: [provider] }, { SVC_PUBLIC_URL: '' })
  expect(withoutAddress).toContainEqual(
    expect.stringContaining('SVC_PUBLIC_URL: must be set when SVC_SSO has providers'),
  )
})

it('is read from a file, with secrets from variables and files, and nothing is on without it', () => {
  const file = path.join(folder, 'sso.json')
  const secretFile = path.join(folder, 'secret')
  writeFileSync(secretFile, 'from a file\n')
  const providers = [
    { ...provider, clientSecretEnv: 'CORP_SECRET' },
    { ...provider, id: 'other', issuer: 'https://other.example.com', clientSecretFile: secretFile },
  ]
  const row = { provider: 'corp', group: 'ml', workspace: 'vision', role: 'owner' }
  const proxy = { addresses: ['10.0.0.0/8', '::1'], secretEnv: 'PROXY_SECRET' }
  writeFileSync(file, JSON.stringify({ proxy, providers, groups: [row] }))
  const environment = { CORP_SECRET: 'from a variable', PROXY_SECRET: 'a shared secret, long' }
  const base = { SVC_PUBLIC_URL: 'https://svc.example.com', ...environment }
  const { singleSignOn } = parseSettings({ ...base, SVC_SSO_FILE: file })
  expect(singleSignOn.providers.map((it) => it.clientSecret)).toEqual(['from a variable', 'from a file'])
  // With the time until the next round, who is taken away loses everything within a minute.
  for (const { refreshMs } of singleSignOn.providers) expect(refreshMs + 5_000).toBeLessThan(60_000)
  const { provider: _, ...given } = row
  expect(singleSignOn.providers.map((it) => it.policy.groupRoles)).toEqual([[given], []])
  expect(singleSignOn.proxy).toMatchObject({
    secret: 'a shared secret, long',
    headers: { user: 'x-forwarded-user', groups: 'x-forwarded-groups', email: 'x-forwarded-email' },
    policy: { createsUsers: false, linksByEmail: false, keyMsMax: 30 * 24 * 3_600_000 },
  })
  expect(parseSettings({}).singleSignOn).toEqual({ proxy: undefined, providers: [] })
  expect(errorsOf({}, { SVC_SSO_FILE: file })).toEqual(['SVC_SSO_FILE: SVC_SSO is set too; use one'])
  expect(errorsOf(undefined, { SVC_SSO_FILE: '/no/such' })).toContainEqual(expect.stringContaining('SVC_SSO_FILE'))
})
