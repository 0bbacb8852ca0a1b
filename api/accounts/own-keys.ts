import { z } from 'zod'
import { object, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { requireWholeKey } from '../../http/key-scope.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { addOwnKey, revokeOwnKey } from '../../store/postgres/accounts/key-admin.ts'
import { listOwnKeys } from '../../store/postgres/accounts/keys.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Access } from '../access.ts'
import { checkKeyFields, keyAnswer, keyFields, toKeyAnswer, toKeyFields } from './key-fields.ts'

const topic = 'Own keys'
const timeMs = z.int().describe('ms since the Unix epoch')
const keysMax = 100

/** The keys of the caller. Those of service accounts are for admins: a leaked key must not be able to make others. */
export function createOwnKeyRoutes({ database, access }: { database: Database; access: Access }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/account/keys',
      permission: 'caller',
      topic,
      summary: 'Lists the API keys of the caller that are not revoked, oldest first, without their secret part.',
      answer: z.object({
        keys: z.array(
          z.object({
            ...keyAnswer,
            isCurrent: z.boolean().describe('true for the key of this call, or of its session'),
          }),
        ),
      }),
      shape: 'plain',
      async handle({ caller }) {
        const keys = await listOwnKeys(database, caller.userId)
        return {
          keys: keys.map((it) => ({ ...toKeyAnswer(it), isCurrent: it.keyId === caller.keyId })),
        }
      },
    }),

    route({
      method: 'POST',
      path: '/account/keys',
      charge: 'call',
      permission: 'caller',
      topic,
      summary:
        `Creates another API key for the caller, who must be a person; at most ${keysMax}. A key that may do less than the ` +
        'caller makes no keys.',
      body: object(keyFields),
      answer: z.object({
        apiKey: z.string().describe('shown only once: the service stores its hash'),
        keyId: z.uuid(),
        createdAt: timeMs,
      }),
      shape: 'envelope',
      async handle({ body, caller, reply }) {
        requirePerson(caller)
        requireWholeKey(caller)
        checkKeyFields(body)
        // Only a place that the caller may use: this tells nothing of others.
        const { workspaceName, projectName } = body
        if (workspaceName !== undefined && projectName !== undefined) {
          await access.project(caller, { workspaceName, projectName })
        } else if (workspaceName !== undefined) await access.workspace(caller, workspaceName)
        const fields = await toKeyFields(database, caller.organizationId, body)
        const made = await addOwnKey(database, caller, fields, keysMax)
        if (!made)
          throw new HttpError('keysFull', `You have ${keysMax} API keys: end those that you no longer use first.`)
        reply.header('cache-control', 'no-store')
        return { apiKey: made.apiKey, keyId: made.keyId, createdAt: Math.floor(made.createdAtMs) }
      },
    }),

    route({
      method: 'POST',
      path: '/account/keys/revoke',
      charge: 'call',
      permission: 'caller',
      topic,
      summary:
        'Revokes an API key of the caller, and ends the sessions that it opened. Every process rejects them within a second.',
      body: object({ keyId: text(100, 1) }),
      answer: z.object({ msg: z.string() }),
      shape: 'envelope',
      async handle({ body, caller }) {
        requirePerson(caller)
        requireWholeKey(caller)
        const wasThere = await revokeOwnKey(database, caller, body.keyId)
        if (!wasThere) throw new HttpError('apiKeyUnknown', 'keyId: you have no such key; see GET /account/keys')
        return { msg: 'Deleted' }
      },
    }),
  ]
}

function requirePerson({ kind }: Caller) {
  if (kind === 'person') return
  throw new HttpError('adminOnly', 'Only an admin may make and end the keys of a service account.')
}
