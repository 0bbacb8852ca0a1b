import { type GivenLimits, limitNames, type TenantLimitName, tenantLimitNames } from '../../store/limits.ts'
import { findTenantLimits, findTenantUsage, setLimits } from '../../store/postgres/accounts/limits.ts'
import { findOrganization } from '../../store/postgres/accounts/users.ts'
import { listOrganizationWorkspaces } from '../../store/postgres/accounts/workspaces.ts'
import type { Database } from '../../store/postgres/database.ts'
import { parsePostgresSettings } from '../settings.ts'
import { describeTerminal } from '../terminal/terminal.ts'
import { withDatabase } from './with-database.ts'

const usage =
  'Usage: svc limits [show] [--workspace NAME] [--organization NAME] [--json]\n' +
  '       svc limits set LIMIT=VALUE... [--workspace NAME] [--organization NAME] [--json]\n' +
  `A limit of the organization: ${tenantLimitNames.join(', ')}.\n` +
  `Of a workspace, also: ${limitNames.join(', ')}. The value "none" removes it.`

type Options = { organization: string; workspace: string | undefined; json: boolean }
type Tenant = { organizationId: string; workspaceName: string | null }

/** What is counted in Postgres; what is done at once, each process counts for itself: `GET /workspace/usage`. */
type Stored = Exclude<TenantLimitName, 'streamsMax' | 'exportsMax' | 'queriesMax'>
type Shown = { workspace: string | null; limits: GivenLimits; used: Record<Stored, number> }

/**
 * Shows what workspaces use of their limits, and sets limits, directly in Postgres. Limits that nobody set come from the settings
 * of the service.
 *
 * @throws Error with the usage for wrong arguments, or with the reason and what to do
 */
export async function limits([action = 'show', ...words]: string[], options: Options): Promise<void> {
  if (action === 'show' ? words.length > 0 : action !== 'set' || words.length === 0) throw new Error(usage)
  const given = parseLimits(words, options.workspace !== undefined)
  await withDatabase(parsePostgresSettings(process.env).postgresUrl, async (database) => {
    const organization = await findOrganization(database, options.organization)
    if (!organization)
      throw new Error(`There is no organization "${options.organization}". Choose one with --organization.`)
    const { organizationId } = organization
    if (action === 'set') {
      const target =
        options.workspace === undefined ? ({ organization: true } as const) : { workspaceName: options.workspace }
      const set = await setLimits(database, { ...organization, userName: 'svc limits' }, target, given)
      if (!set) throw unknownWorkspace(options.workspace)
    }
    const shown =
      action === 'set' || options.workspace !== undefined
        ? [await show(database, { organizationId, workspaceName: options.workspace ?? null })]
        : await showAll(database, organizationId)
    print(options.json ? JSON.stringify(shown) : shown.map(render).join('\n'))
  })
}

/** Those of the organization may only be limits of tenants. */
function parseLimits(words: string[], isWorkspace: boolean): Record<string, number | null> {
  const allowed: readonly string[] = isWorkspace ? [...tenantLimitNames, ...limitNames] : tenantLimitNames
  return Object.fromEntries(
    words.map((word) => {
      const [name = '', value = '', ...more] = word.split('=')
      if (more.length > 0 || !allowed.includes(name)) {
        const hint = isWorkspace ? '' : '; those of a workspace need --workspace'
        throw new Error(`${word}: expected LIMIT=VALUE, with one of ${allowed.join(', ')}${hint}.`)
      }
      if (value === 'none') return [name, null]
      if (!/^[1-9]\d{0,14}$/.test(value)) throw new Error(`${name}: must be a number of 1 or more, or "none".`)
      return [name, Number(value)]
    }),
  )
}

async function showAll(database: Database, organizationId: string): Promise<Shown[]> {
  const workspaces = await listOrganizationWorkspaces(database, organizationId)
  const shown = [await show(database, { organizationId, workspaceName: null })]
  for (const { workspaceName } of workspaces) shown.push(await show(database, { organizationId, workspaceName }))
  return shown
}

async function show(database: Database, tenant: Tenant): Promise<Shown> {
  const found = await findTenantLimits(database, tenant)
  if (!found) throw unknownWorkspace(tenant.workspaceName)
  const { points, fileBytes, experiments } = await findTenantUsage(database, tenant)
  return {
    workspace: tenant.workspaceName,
    limits: tenant.workspaceName === null ? found.organization : found.workspace,
    used: { pointsPerMinute: points, fileBytesMax: fileBytes, experimentsMax: experiments },
  }
}

function render({ workspace, limits, used }: Shown): string {
  const { paint } = describeTerminal(process.stdout, process.env)
  const counted = Object.entries(used).map(([name, it]) => [name, String(it), limits[name as Stored]] as const)
  const others = Object.entries(limits)
    .filter(([name]) => !Object.hasOwn(used, name))
    .map(([name, max]) => [name, '-', max] as const)
  const lines = [...counted, ...others].map(
    ([name, now, max]) =>
      `  ${name.padEnd(24)}${now.padStart(16)}  ${max === undefined ? paint('dim', 'as the service') : `of ${max}`}`,
  )
  return [paint('bold', workspace === null ? 'The organization' : `Workspace ${workspace}`), ...lines].join('\n')
}

const unknownWorkspace = (name: string | null | undefined) => new Error(`There is no workspace "${name}".`)

function print(line: string) {
  process.stdout.write(`${line}\n`)
}
