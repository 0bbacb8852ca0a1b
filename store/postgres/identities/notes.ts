import { type Act, type Actor, insertAudit } from '../accounts/audit.ts'
import type { Queries } from '../database.ts'

type Entry = { actor: Actor; act: Act; subject: string; details: Record<string, unknown> }

export type Note = (act: Act, subject: string, details?: Record<string, unknown>) => void

/**
 * Entries of the audit log that are written when the work of a transaction is done, organization by organization: nothing that
 * waits for another lock may come after them.
 */
export function createNotes() {
  const entries: Entry[] = []
  return {
    /** Notes what a provider says, or what a person does. */
    by(actor: Actor, provider: string): Note {
      return (act, subject, details = {}) =>
        void entries.push({ actor, act, subject, details: { ...details, provider } })
    },

    async insertAll(queries: Queries) {
      const sorted = entries.toSorted((a, b) => (a.actor.organizationId < b.actor.organizationId ? -1 : 1))
      for (const { actor, act, subject, details } of sorted) await insertAudit(queries, actor, act, subject, details)
    },
  }
}

export type Notes = ReturnType<typeof createNotes>

/** In the audit log, who does what a provider says. */
export const toProviderActor = (organizationId: string, provider: string): Actor => ({
  organizationId,
  userName: `single sign-on (${provider})`,
})
