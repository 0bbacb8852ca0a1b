import { createClient, type TestClient } from '../../kit/http/client.ts'
import { createUser, openTestService, storesWith } from '../../kit/service.ts'

export type Organization = Awaited<ReturnType<typeof openOrganization>>
type Options = Parameters<typeof openTestService>[0]

/** The service with the admin of an organization, somebody else of it, and the admin of another one. */
export async function openOrganization(options: Options = {}) {
  const service = await openTestService({ ...options, isAdmin: true })
  const admin = service.client
  const { organizationId, organizationName } = (await admin.get('/admin/users')).body as Record<string, string>
  const stranger = await createUser(options.stores ?? storesWith('postgres'), { isAdmin: true })
  const as = (apiKey: string, workspaceName = service.workspaceName): TestClient =>
    createClient(service.url, { apiKey, workspaceName })

  const organization = {
    ...service,
    organizationId: organizationId as string,
    organizationName: organizationName as string,
    admin,
    stranger: as(stranger.apiKey, stranger.workspaceName),
    strangersWorkspace: stranger.workspaceName,
    /** A client with another key. */
    as,

    async createWorkspace(name: string): Promise<string> {
      const answer = await admin.post('/write/workspace/new', { name })
      if (answer.status !== 200) throw new Error(`workspace/new answered ${answer.status}: ${answer.text}`)
      return name
    },

    /** Makes a service account and answers its record. */
    async createAccount(name: string, fields: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
      const answer = await admin.post('/write/service-account', organization.account(name, fields))
      if (answer.status !== 200) throw new Error(`service-account answered ${answer.status}: ${answer.text}`)
      return answer.body
    },

    /** The body that makes a service account. */
    account: (name: string, fields: Record<string, unknown> = {}) => ({
      name,
      teamName: service.workspaceName,
      organizationName,
      ...fields,
    }),

    /** Makes a user with a key. */
    async createColleague(userName: string, fields: Record<string, unknown> = {}): Promise<string> {
      const made = await admin.post('/admin/users', { userName, ...fields })
      if (made.status !== 200) throw new Error(`admin/users answered ${made.status}: ${made.text}`)
      return (await admin.post('/admin/users/keys', { userName })).body.apiKey as string
    },
  }
  return organization
}
