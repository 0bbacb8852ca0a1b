import { readFileSync } from 'node:fs'
import ipaddr from 'ipaddr.js'
import { z } from 'zod'
import type { ProviderSettings } from '../../api/single-sign-on/provider.ts'
import type { ProxySignIn } from '../../http/sign-in/proxy-check.ts'
import { organizationRoles } from '../../store/postgres/accounts/users.ts'
import { roles } from '../../store/postgres/accounts/visibility.ts'
import type { GroupRole } from '../../store/postgres/identities/group-roles.ts'
import type { Policy } from '../../store/postgres/identities/identities.ts'

/**
 * The document in `SVC_SSO` or `SVC_SSO_FILE`: who signs people in, and what their groups give. It holds no secret: it names the
 * variables or files of secrets. `docs/single-sign-on.md` describes each field.
 */

/** The provider of a reverse proxy. */
const proxyId = 'proxy'

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs
const secretCharactersMin = 16

const name = z.string().min(1, 'must not be empty')
const names = z.array(name).default([])
const headerName = z
  .string()
  .regex(/^[\w-]+$/, 'must be the name of a header')
  .toLowerCase()
const positive = z.number().positive('must be more than 0')

const policy = {
  organization: name.default('default'),
  createUsers: z.boolean().default(false),
  linkByVerifiedEmail: z.boolean().default(false),
  allowedGroups: names,
  allowedEmailDomains: z.array(name.toLowerCase()).default([]),
  sessionMinutes: positive.default(60),
  keyDays: positive.default(30),
}

const range = z.string().superRefine((text, context) => {
  if (toRange(text) === undefined)
    context.addIssue({ code: 'custom', message: `is no address or range: ${JSON.stringify(text)}` })
})

const proxy = z
  .strictObject({
    addresses: z.array(range).default([]),
    secretEnv: name.optional(),
    secretFile: name.optional(),
    headers: z
      .strictObject({
        secret: headerName.default('x-svc-proxy-secret'),
        user: headerName.default('x-forwarded-user'),
        name: headerName.default('x-forwarded-preferred-username'),
        email: headerName.default('x-forwarded-email'),
        groups: headerName.default('x-forwarded-groups'),
      })
      .prefault({}),
    isEmailVerified: z.boolean().default(false),
    signOutUrl: name.optional(),
    ...policy,
  })
  .refine((it) => it.addresses.length > 0 || it.secretEnv !== undefined || it.secretFile !== undefined, {
    error: 'needs addresses, or secretEnv or secretFile: without them anybody could say who they are',
  })

const reserved = [
  'client_id',
  'redirect_uri',
  'response_type',
  'scope',
  'state',
  'nonce',
  'code_challenge',
  'code_challenge_method',
]

const provider = z.strictObject({
  id: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{0,39}$/, 'must have small letters, digits and - only, 40 at most')
    .refine((it) => it !== proxyId, `must not be "${proxyId}", which is the reverse proxy`),
  name,
  issuer: z.url({ protocol: /^https?$/, error: 'must be a URL (https://...)' }),
  clientId: name,
  clientSecretEnv: name.optional(),
  clientSecretFile: name.optional(),
  scopes: z.array(name).optional(),
  authorizationParameters: z
    .record(z.string(), z.string())
    .default({})
    .superRefine((it, context) => {
      for (const path of Object.keys(it).filter((key) => reserved.includes(key))) {
        context.addIssue({ code: 'custom', path: [path], message: 'is set by the service' })
      }
    }),
  userNameClaim: name.default('preferred_username'),
  groupsClaim: name.default('groups'),
  refreshSeconds: z.number().min(5, 'must be 5 or more').default(40),
  ...policy,
})

/** Everybody is a member. */
const givenRoles = organizationRoles.filter((it) => it !== 'member')

const group = z
  .strictObject({
    provider: name,
    group: name,
    workspace: name.max(100, 'must have 100 characters or fewer').optional(),
    role: z.enum(roles, { error: () => `must be one of ${roles.join(', ')}` }).optional(),
    organizationRole: z.enum(givenRoles, { error: () => `must be one of ${givenRoles.join(', ')}` }).optional(),
  })
  .superRefine((it, context) => {
    const isOfWorkspace = it.workspace !== undefined && it.role !== undefined
    const isPart = (it.workspace === undefined) !== (it.role === undefined)
    if (!isPart && isOfWorkspace !== (it.organizationRole !== undefined)) return
    context.addIssue({ code: 'custom', message: 'must have workspace and role, or organizationRole' })
  })

const singleSignOn = z
  .strictObject({
    proxy: proxy.optional(),
    providers: z.array(provider).default([]),
    groups: z.array(group).default([]),
  })
  .superRefine(({ proxy, providers, groups }, context) => {
    const known = [...providers.map((it) => it.id), ...(proxy ? [proxyId] : [])]
    for (const [at, it] of groups.entries()) {
      if (known.includes(it.provider)) continue
      const message = `is ${JSON.stringify(it.provider)}, but the providers are ${known.join(', ') || 'none'}`
      context.addIssue({ code: 'custom', path: ['groups', at, 'provider'], message })
    }
    for (const field of ['id', 'issuer'] as const) {
      for (const [at, it] of providers.entries()) {
        if (providers.findIndex((other) => other[field] === it[field]) === at) continue
        const message = `${JSON.stringify(it[field])} is that of another provider`
        context.addIssue({ code: 'custom', path: ['providers', at, field], message })
      }
    }
  })

export type SingleSignOn = {
  proxy: (ProxySignIn & { policy: Policy; signOutUrl: string | undefined }) | undefined
  providers: ProviderSettings[]
}

type Given = { text: string | undefined; file: string | undefined; environment: Record<string, string | undefined> }

/** Reads the document. Each error begins with the path of the entry, as `SVC_SSO.groups[2].role`. */
export function parseSingleSignOn({ text, file, environment }: Given): { value: SingleSignOn; errors: string[] } {
  const none: SingleSignOn = { proxy: undefined, providers: [] }
  const setting = text === undefined ? 'SVC_SSO_FILE' : 'SVC_SSO'
  if (text !== undefined && file !== undefined)
    return { value: none, errors: ['SVC_SSO_FILE: SVC_SSO is set too; use one'] }
  let given: unknown
  try {
    const json = text ?? (file === undefined ? undefined : readFileSync(file, 'utf8'))
    if (json === undefined) return { value: none, errors: [] }
    given = JSON.parse(json)
  } catch (error) {
    return { value: none, errors: [`${setting}: cannot be read as JSON: ${(error as Error).message}`] }
  }
  const parsed = singleSignOn.safeParse(given)
  if (!parsed.success) {
    return { value: none, errors: parsed.error.issues.map((it) => `${setting}${toPath(it.path)}: ${it.message}`) }
  }
  const errors: string[] = []
  function readSecret(
    path: PropertyKey[],
    [name, file]: [string | undefined, string | undefined],
    fields: [string, string],
  ) {
    const [nameField, fileField] = fields
    const fail = (field: string, message: string) =>
      void errors.push(`${setting}${toPath([...path, field])}: ${message}`)
    if (name !== undefined && file !== undefined) return fail(fileField, `${nameField} is there too; use one`)
    if (name !== undefined) return environment[name] || fail(nameField, `the variable ${name} is not set`)
    if (file === undefined) return undefined
    try {
      return readFileSync(file, 'utf8').trim() || fail(fileField, 'the file is empty')
    } catch (error) {
      return fail(fileField, `cannot be read: ${(error as Error).message}`)
    }
  }
  const { groups } = parsed.data
  const toPolicy = (id: string, it: z.output<z.ZodObject<typeof policy>>): Policy => ({
    provider: id,
    organizationName: it.organization,
    createsUsers: it.createUsers,
    linksByEmail: it.linkByVerifiedEmail,
    sessionMsMax: it.sessionMinutes * minuteMs,
    keyMsMax: it.keyDays * dayMs,
    allowedGroups: it.allowedGroups,
    allowedEmailDomains: it.allowedEmailDomains,
    groupRoles: groups.filter((row) => row.provider === id).map(({ provider: _, ...row }) => row as GroupRole),
  })
  const providers = parsed.data.providers.map((it, at): ProviderSettings => {
    const { id, name, issuer, clientId, scopes, authorizationParameters, userNameClaim, groupsClaim } = it
    const secrets: [string | undefined, string | undefined] = [it.clientSecretEnv, it.clientSecretFile]
    return {
      id,
      name,
      issuer,
      clientId,
      clientSecret: readSecret(['providers', at], secrets, ['clientSecretEnv', 'clientSecretFile']) || undefined,
      scopes,
      authorizationParameters,
      userNameClaim,
      groupsClaim,
      refreshMs: it.refreshSeconds * 1_000,
      policy: toPolicy(id, it),
    }
  })
  const value: SingleSignOn = { proxy: undefined, providers }
  const given_ = parsed.data.proxy
  if (given_) {
    const { headers, isEmailVerified, signOutUrl } = given_
    const secret =
      readSecret(['proxy'], [given_.secretEnv, given_.secretFile], ['secretEnv', 'secretFile']) || undefined
    if (secret !== undefined && secret.length < secretCharactersMin) {
      errors.push(`${setting}.proxy: the secret must have ${secretCharactersMin} characters or more`)
    }
    const ranges = given_.addresses.map((it) => toRange(it) as [ipaddr.IPv4 | ipaddr.IPv6, number])
    value.proxy = { ranges, secret, headers, isEmailVerified, signOutUrl, policy: toPolicy(proxyId, given_) }
  }
  return { value, errors }
}

const toPath = (path: PropertyKey[]) =>
  path.map((it) => (typeof it === 'number' ? `[${it}]` : `.${String(it)}`)).join('')

/** A range of addresses, in CIDR notation or as one address. */
function toRange(text: string): [ipaddr.IPv4 | ipaddr.IPv6, number] | undefined {
  const [address = '', bits, ...more] = text.split('/')
  // Short forms such as 10.1 would mean 10.0.0.1.
  if (!ipaddr.IPv4.isValidFourPartDecimal(address) && !ipaddr.IPv6.isValid(address)) return undefined
  if (more.length > 0 || (bits !== undefined && !ipaddr.isValidCIDR(text))) return undefined
  if (bits !== undefined) return ipaddr.parseCIDR(text)
  const parsed = ipaddr.parse(address)
  return [parsed, parsed.kind() === 'ipv4' ? 32 : 128]
}
