import { findFirstAdmin } from '../../store/postgres/accounts/accounts.ts'
import { insertSignInLink } from '../../store/postgres/accounts/sessions.ts'
import { findOrganization, findUser } from '../../store/postgres/accounts/users.ts'
import { toUrlHost } from '../service.ts'
import { parsePostgresSettings } from '../settings.ts'
import { withDatabase } from './with-database.ts'

const usage = 'Usage: svc sign-in-link [NAME] [--organization NAME] [--json]'

type Options = { organization: string; json: boolean }

/**
 * Prints a link that signs a browser in once, within ten minutes: as the user of that name, or as the first admin.
 *
 * @throws Error with the usage for wrong arguments, or with the reason and what to do
 */
export async function signInLink(words: string[], { organization, json }: Options): Promise<void> {
  if (words.length > 1) throw new Error(usage)
  const { postgresUrl, publicUrl, host, port } = parsePostgresSettings(process.env)
  const url = publicUrl ?? `http://${toUrlHost(host)}:${port}`
  const [userName] = words
  const link = await makeSignInLink({ postgresUrl, url, organization, userName, actor: 'svc sign-in-link' })
  process.stdout.write(json ? `${JSON.stringify({ link })}\n` : `${link}\nIt works once, within ten minutes.\n`)
}

type Wanted = { postgresUrl: string; url: string; organization: string; userName: string | undefined; actor: string }

/** Makes a link for a user of an organization, or for its first admin. */
export async function makeSignInLink({ postgresUrl, url, organization, userName, actor }: Wanted): Promise<string> {
  return await withDatabase(postgresUrl, async (database) => {
    const found = await findOrganization(database, organization)
    if (!found) throw new Error(`There is no organization "${organization}". Choose one with --organization.`)
    const user =
      userName === undefined
        ? await findFirstAdmin(database, organization)
        : await findUser(database, found.organizationId, { userName, isService: false })
    if (!user) throw new Error(`There is no ${userName ? `user "${userName}"` : 'admin'}. "svc users list" lists all.`)
    const token = await database.transaction((queries) =>
      insertSignInLink(queries, { ...found, userName: actor }, { userName: userName ?? '', ...user }),
    )
    return `${url}/?token=${token}`
  })
}
