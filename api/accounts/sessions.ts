import { z } from 'zod'
import { object, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { endSession, listSessions } from '../../store/postgres/accounts/sessions.ts'
import { findOrganizationName, shownKinds } from '../../store/postgres/accounts/users.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { SingleSignOn } from '../single-sign-on/single-sign-on.ts'
import type { SignIn } from './sign-in.ts'
import { listUsable, listWritable } from './workspaces.ts'

const topic = 'Signing in'
const timeMs = z.int().describe('ms since the Unix epoch')

const sessionAnswer = z.object({
  userName: z.string(),
  kind: z.enum(['user', 'service account']),
  isAdmin: z.boolean(),
  isAuditor: z.boolean(),
  isOperator: z.boolean().describe('true for an admin who looks after the whole service'),
  organizationId: z.uuid(),
  organizationName: z.string(),
  defaultWorkspaceName: z.string().nullable(),
  workspaceNames: z.array(z.string()),
  writableWorkspaceNames: z.array(z.string()).describe('those where the caller may change something'),
  sessionId: z.uuid().nullable().describe('null for a caller with a key'),
  expiresAt: timeMs.nullable().describe('when the session ends by itself; null for a caller with a key'),
  signOutUrl: z.string().nullable().describe('where to sign out, for a caller whom a reverse proxy signs in'),
  publicUrl: z.string().nullable().describe('the address in links, as in SVC_PUBLIC_URL'),
  version: z.string(),
})

type Deps = {
  database: Database
  signIn: SignIn
  singleSignOn: SingleSignOn | undefined
  publicUrl: string | undefined
  proxySignOutUrl: string | undefined
  version: string
}

/** Sessions of browsers: the web interface signs in with them. */
export function createSessionRoutes({
  database,
  signIn,
  singleSignOn,
  publicUrl,
  proxySignOutUrl,
  version,
}: Deps): Route[] {
  async function describe(caller: Caller): Promise<z.input<typeof sessionAnswer>> {
    const { userName, isAdmin, isAuditor, isOperator, organizationId, defaultWorkspaceName, session } = caller
    return {
      userName,
      kind: shownKinds[caller.kind],
      isAdmin,
      isAuditor,
      isOperator,
      organizationId,
      organizationName: await findOrganizationName(database, organizationId),
      defaultWorkspaceName,
      workspaceNames: await listUsable(database, caller),
      writableWorkspaceNames: await listWritable(database, caller),
      sessionId: session?.id ?? null,
      expiresAt: session?.expiresAtMs ?? null,
      signOutUrl: (caller.identity && proxySignOutUrl) ?? null,
      publicUrl: publicUrl ?? null,
      version,
    }
  }

  return [
    route({
      method: 'POST',
      path: '/session',
      charge: 'own',
      atRoot: true,
      permission: 'anyone',
      topic,
      summary:
        'Opens a session for a browser with an API key, and sets its cookie. It ends with the key, when it is ended, or at ' +
        '`expiresAt`. A session may change something only in calls of the pages of this service.',
      body: object({ apiKey: text(1_000, 1) }),
      answer: sessionAnswer,
      shape: 'plain',
      async handle({ body, headers, reply }) {
        const { caller, cookie } = await signIn.withKey(body.apiKey, headers).catch(slowDown)
        reply.header('set-cookie', cookie).header('cache-control', 'no-store')
        return await describe(caller)
      },
    }),

    route({
      method: 'GET',
      path: '/session/providers',
      atRoot: true,
      permission: 'anyone',
      topic,
      summary:
        'Lists where people can sign in without a key. Open `path`, below the address of the service, in a browser; `to` is the ' +
        'path of the page to come back to.',
      answer: z.object({
        providers: z.array(z.object({ id: z.string(), name: z.string(), path: z.string() })),
      }),
      shape: 'plain',
      handle: () => ({ providers: singleSignOn?.providers ?? [] }),
    }),

    route({
      method: 'GET',
      path: '/session',
      atRoot: true,
      permission: 'caller',
      topic,
      summary: 'Reads who calls: the account, its workspaces and the end of the session.',
      answer: sessionAnswer,
      shape: 'plain',
      async handle({ caller, reply }) {
        reply.header('cache-control', 'no-store')
        return await describe(caller)
      },
    }),

    route({
      method: 'DELETE',
      path: '/session',
      charge: 'personal',
      atRoot: true,
      permission: 'caller',
      topic,
      summary:
        'Ends the session of the caller, and removes its cookie. `signOutUrl` is where to sign out at the provider that ' +
        'opened it.',
      answer: z.object({ signOutUrl: z.string().nullable() }),
      shape: 'plain',
      async handle({ caller, headers, reply }) {
        const signOutUrl = await singleSignOn?.leave(caller)
        if (caller.session) await endSession(database, caller, caller.session.id)
        // The address holds a token.
        reply.header('set-cookie', signIn.noCookie(headers)).header('cache-control', 'no-store')
        return { signOutUrl: signOutUrl ?? null }
      },
    }),

    route({
      method: 'GET',
      path: '/account/sessions',
      permission: 'caller',
      topic,
      summary: 'Lists the sessions of the caller, newest first.',
      answer: z.object({
        sessions: z.array(
          z.object({
            sessionId: z.uuid(),
            isCurrent: z.boolean(),
            userAgent: z.string().describe('the browser, as it named itself when it signed in'),
            shownPrefix: z.string().nullable().describe('the key that opened it; null when none did'),
            provider: z
              .string()
              .nullable()
              .describe('the provider of single sign-on that opened it; null when none did'),
            createdAt: timeMs,
            expiresAt: timeMs,
          }),
        ),
      }),
      shape: 'plain',
      async handle({ caller }) {
        const sessions = await listSessions(database, caller.userId)
        return {
          sessions: sessions.map(({ createdAtMs, expiresAtMs, ...it }) => ({
            ...it,
            isCurrent: it.sessionId === caller.session?.id,
            createdAt: createdAtMs,
            expiresAt: expiresAtMs,
          })),
        }
      },
    }),

    route({
      method: 'POST',
      path: '/account/sessions/end',
      charge: 'personal',
      permission: 'caller',
      topic,
      summary: 'Ends a session of the caller. Every process rejects it within a second.',
      body: object({ sessionId: text(100, 1) }),
      answer: z.object({ msg: z.string() }),
      shape: 'envelope',
      async handle({ body, caller }) {
        const wasThere = await endSession(database, caller, body.sessionId)
        if (!wasThere) {
          throw new HttpError('sessionUnknown', 'sessionId: you have no such session; see GET /account/sessions')
        }
        return { msg: 'Ended' }
      },
    }),
  ]
}

/** How long the answer to a wrong key takes: whoever tries many is slowed down. */
const wrongKeyHoldMs = 500

function slowDown(error: unknown): never {
  if (!(error instanceof HttpError) || error.kind !== 'keyUnknown') throw error
  throw new HttpError('keyUnknown', 'This API key is not registered, or was revoked.', {
    holdMs: wrongKeyHoldMs,
  })
}
