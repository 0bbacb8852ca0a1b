import { createHash, randomBytes } from 'node:crypto'
import type { Database, Queries } from '../database.ts'
import { type Actor, administer, insertAudit } from './audit.ts'
import { decrypt, encrypt } from './encryption.ts'

/**
 * Secrets of organizations. Each organization has a data key, which encrypts its secrets and is itself encrypted with the
 * master key; both are bound to the organization, a secret also to its name, so that a row that is copied to another
 * place does not open there.
 *
 * Which master key is in use is said in Postgres. A process may know two: it works with whichever of them is in use, so
 * that `rotate` changes it for all of them in one moment.
 */
type Settings = {
  database: Database
  /** 32 bytes. */
  masterKey: Buffer
  /** The other one, while the master key is changed. */
  previousMasterKey?: Buffer
}

/** The master key that secrets are encrypted with is not one of those that this process was given. */
export class WrongMasterKey extends Error {
  constructor() {
    super(
      'The master key is not the one that secrets in Postgres are encrypted with: set SVC_MASTER_KEY to the one that was ' +
        'used until now, or restore the file master-key of the data folder. To change it, set the new one, the old one as ' +
        'SVC_MASTER_KEY_PREVIOUS, and run "svc secrets rotate".',
    )
    this.name = 'WrongMasterKey'
  }
}

/** A row that does not open: it was changed, or belongs elsewhere. */
class UnreadableSecret extends Error {
  constructor(name: string) {
    super(`the secret ${JSON.stringify(name)} does not open: its row was changed or moved`)
    this.name = 'UnreadableSecret'
  }
}

const dataKeyBytes = 32

export function openSecrets({ database, masterKey, previousMasterKey }: Settings) {
  const known = [masterKey, previousMasterKey].filter((it) => it !== undefined)

  /** The master key in use; the first one ever to be used is the present one. */
  async function findMasterKey(queries: Queries, lock: 'FOR SHARE' | 'FOR UPDATE'): Promise<Buffer> {
    const select = `SELECT fingerprint FROM master_key ${lock}`
    let row = await queries.row<{ fingerprint: Buffer }>(select)
    if (!row) {
      await queries.row('INSERT INTO master_key (fingerprint) VALUES ($1) ON CONFLICT DO NOTHING', [
        toFingerprint(masterKey),
      ])
      row = await queries.row<{ fingerprint: Buffer }>(select)
    }
    const inUse = row?.fingerprint
    const key = known.find((it) => inUse?.equals(toFingerprint(it)))
    if (!key) throw new WrongMasterKey()
    return key
  }

  /** The data key of an organization, which is made when it has none. */
  async function ensureDataKey(queries: Queries, organizationId: string): Promise<Buffer> {
    const master = await findMasterKey(queries, 'FOR SHARE')
    await queries.row(
      'INSERT INTO organization_data_keys (organization_id, wrapped) VALUES ($1, $2) ON CONFLICT DO NOTHING',
      [organizationId, encrypt(master, placeOfDataKey(organizationId), randomBytes(dataKeyBytes))],
    )
    const row = await queries.row<{ wrapped: Buffer }>(
      'SELECT wrapped FROM organization_data_keys WHERE organization_id = $1',
      [organizationId],
    )
    const dataKey = decrypt(master, placeOfDataKey(organizationId), (row as { wrapped: Buffer }).wrapped)
    if (!dataKey) throw new UnreadableSecret('data key')
    return dataKey
  }

  /** Opens the data key of an organization with the master key in use. */
  function toDataKey(organizationId: string, { wrapped, fingerprint }: { wrapped: Buffer; fingerprint: Buffer }) {
    const master = known.find((it) => fingerprint.equals(toFingerprint(it)))
    if (!master) throw new WrongMasterKey()
    const dataKey = decrypt(master, placeOfDataKey(organizationId), wrapped)
    if (!dataKey) throw new UnreadableSecret('data key')
    return dataKey
  }

  return {
    /** Resolves when this process knows the master key in use, or none is in use yet. Fails with `WrongMasterKey`. */
    async check(): Promise<void> {
      const row = await database.row<{ fingerprint: Buffer }>('SELECT fingerprint FROM master_key')
      if (row && !known.some((it) => row.fingerprint.equals(toFingerprint(it)))) throw new WrongMasterKey()
    },

    /** Keeps a secret; one of this name is replaced. */
    async put(actor: Actor, name: string, value: string): Promise<void> {
      const { organizationId } = actor
      await administer(database, actor, async (queries, note) => {
        const dataKey = await ensureDataKey(queries, organizationId)
        await queries.row(
          `INSERT INTO organization_secrets (organization_id, name, encrypted) VALUES ($1, $2, $3)
           ON CONFLICT (organization_id, name) DO UPDATE SET encrypted = excluded.encrypted, updated_at = now()`,
          [organizationId, name, encrypt(dataKey, placeOfSecret(organizationId, name), Buffer.from(value))],
        )
        await note('secret.set', name)
      })
    },

    /**
     * A secret in clear text; undefined when the organization has none of this name.
     *
     * @throws WrongMasterKey, UnreadableSecret
     */
    async find(organizationId: string, name: string): Promise<string | undefined> {
      // In one statement, so that a change of the master key meanwhile cannot come between.
      const row = await database.row<{ encrypted: Buffer; wrapped: Buffer; fingerprint: Buffer }>(
        `SELECT s.encrypted, k.wrapped, m.fingerprint FROM organization_secrets s
         JOIN organization_data_keys k ON k.organization_id = s.organization_id CROSS JOIN master_key m
         WHERE s.organization_id = $1 AND s.name = $2`,
        [organizationId, name],
      )
      if (!row) return undefined
      return toText(name, decrypt(toDataKey(organizationId, row), placeOfSecret(organizationId, name), row.encrypted))
    },

    /** Opens up to `limit` secrets, to see that they can be; answers how many there were, and the names of those that do not. */
    async tryAll(limit: number): Promise<{ tried: number; unreadable: string[] }> {
      const rows = await database.rows<{
        organizationId: string
        name: string
        encrypted: Buffer
        wrapped: Buffer
        fingerprint: Buffer
      }>(
        `SELECT s.organization_id AS "organizationId", s.name, s.encrypted, k.wrapped, m.fingerprint
         FROM organization_secrets s JOIN organization_data_keys k ON k.organization_id = s.organization_id
         CROSS JOIN master_key m ORDER BY 1, 2 LIMIT $1`,
        [limit],
      )
      const opens = (row: (typeof rows)[number]) => {
        const master = known.find((it) => row.fingerprint.equals(toFingerprint(it)))
        if (!master) throw new WrongMasterKey()
        const dataKey = decrypt(master, placeOfDataKey(row.organizationId), row.wrapped)
        return dataKey && decrypt(dataKey, placeOfSecret(row.organizationId, row.name), row.encrypted) !== undefined
      }
      return { tried: rows.length, unreadable: rows.filter((row) => !opens(row)).map((it) => it.name) }
    },

    /** Encrypts texts of an organization that are kept elsewhere, each so that it opens only in its place. */
    async encryptTexts(queries: Queries, organizationId: string, texts: Placed<string>[]): Promise<Buffer[]> {
      const dataKey = await ensureDataKey(queries, organizationId)
      return texts.map(({ place, value }) =>
        encrypt(dataKey, placeElsewhere(organizationId, place), Buffer.from(value)),
      )
    },

    /**
     * Texts that `encryptTexts` has encrypted.
     *
     * @throws WrongMasterKey, UnreadableSecret
     */
    async decryptTexts(organizationId: string, sealed: Placed<Buffer>[]): Promise<string[]> {
      const row = await database.row<{ wrapped: Buffer; fingerprint: Buffer }>(
        `SELECT k.wrapped, m.fingerprint FROM organization_data_keys k CROSS JOIN master_key m
         WHERE k.organization_id = $1`,
        [organizationId],
      )
      if (!row) throw new UnreadableSecret('data key')
      const dataKey = toDataKey(organizationId, row)
      return sealed.map(({ place, value }) =>
        toText(place.join(' '), decrypt(dataKey, placeElsewhere(organizationId, place), value)),
      )
    },

    /** True when there was one. */
    async remove(actor: Actor, name: string): Promise<boolean> {
      return await administer(database, actor, async (queries, note) => {
        const row = await queries.row(
          'DELETE FROM organization_secrets WHERE organization_id = $1 AND name = $2 RETURNING name',
          [actor.organizationId, name],
        )
        if (row) await note('secret.deleted', name)
        return row !== undefined
      })
    },

    /**
     * Takes the present master key into use in the place of the previous one: all data keys are encrypted anew in one
     * transaction. The secrets themselves stay as they are.
     *
     * @returns how many data keys there were; undefined when the present key is in use already
     */
    async rotate(userName: string): Promise<number | undefined> {
      return await database.transaction(async (queries) => {
        const inUse = await findMasterKey(queries, 'FOR UPDATE')
        if (inUse.equals(masterKey)) return undefined
        const rows = await queries.rows<{ organizationId: string; wrapped: Buffer }>(
          'SELECT organization_id AS "organizationId", wrapped FROM organization_data_keys ORDER BY 1 FOR UPDATE',
        )
        for (const { organizationId, wrapped } of rows) {
          const place = placeOfDataKey(organizationId)
          const dataKey = decrypt(inUse, place, wrapped)
          if (!dataKey) throw new UnreadableSecret('data key')
          await queries.row('UPDATE organization_data_keys SET wrapped = $2 WHERE organization_id = $1', [
            organizationId,
            encrypt(masterKey, place, dataKey),
          ])
          await insertAudit(queries, { organizationId, userName }, 'secrets.rewrapped', 'master key')
        }
        await queries.row('UPDATE master_key SET fingerprint = $1', [toFingerprint(masterKey)])
        return rows.length
      })
    },
  }
}

/** True once something was encrypted. */
export async function isMasterKeyInUse(queries: Queries): Promise<boolean> {
  return (await queries.row('SELECT FROM master_key')) !== undefined
}

export type Secrets = ReturnType<typeof openSecrets>

/** What is kept, or encrypted, in a place: a table, a row and a column. */
type Placed<T> = { place: string[]; value: T }

function toText(name: string, value: Buffer | undefined): string {
  if (!value) throw new UnreadableSecret(name)
  return value.toString()
}

const placeElsewhere = (organizationId: string, place: string[]) => ['elsewhere', organizationId, ...place]
const placeOfDataKey = (organizationId: string) => ['data key', organizationId]
const placeOfSecret = (organizationId: string, name: string) => ['secret', organizationId, name]

/** Tells master keys apart, and nothing about them. */
export function toFingerprint(key: Buffer): Buffer {
  return createHash('sha256').update('svc master key').update(key).digest().subarray(0, 16)
}
