import { createHash, randomBytes } from 'node:crypto'
import type { Database, Queries } from '../database.ts'
import { type Actor, administer, insertAudit } from './audit.ts'
import { decrypt, encrypt } from './encryption.ts'

/**
 * Secrets of organizations, by envelope encryption: each organization has a data key that encrypts its secrets, and the master
 * key encrypts the data keys. The organization and the name are additional data, so a row that is copied elsewhere does not
 * decrypt there.
 *
 * Postgres holds the fingerprint of the master key in use. A process may know two and uses the one that matches, so `rotate`
 * switches all processes at once.
 */
type Settings = {
  database: Database
  /** 32 bytes. */
  masterKey: Buffer
  /** The old one, while the master key is rotated. */
  previousMasterKey?: Buffer
}

/** This process was not given the master key that the secrets are encrypted with. */
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

/** A row does not decrypt: it was changed or moved. */
class UnreadableSecret extends Error {
  constructor(name: string) {
    super(`the secret ${JSON.stringify(name)} does not open: its row was changed or moved`)
    this.name = 'UnreadableSecret'
  }
}

const dataKeyBytes = 32

export function openSecrets({ database, masterKey, previousMasterKey }: Settings) {
  const known = [masterKey, previousMasterKey].filter((it) => it !== undefined)

  /** The master key in use; the current one, when none was used yet. */
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

  /** The data key of an organization, created when it has none. */
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

  /** Decrypts the data key of an organization with the master key in use. */
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

    /** Stores a secret, and replaces one of this name. */
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
     * A secret in clear text; undefined when the organization has none of this name, or the workspace may not use it.
     *
     * @throws WrongMasterKey, UnreadableSecret
     */
    async find(organizationId: string, name: string, workspaceId?: string): Promise<string | undefined> {
      // One statement, so that no rotation of the master key can come between.
      const row = await database.row<{ encrypted: Buffer; wrapped: Buffer; fingerprint: Buffer }>(
        `SELECT s.encrypted, k.wrapped, m.fingerprint FROM organization_secrets s
         JOIN organization_data_keys k ON k.organization_id = s.organization_id CROSS JOIN master_key m
         WHERE s.organization_id = $1 AND s.name = $2 AND ${isAllowed('s', '$3')}`,
        [organizationId, name, workspaceId ?? null],
      )
      if (!row) return undefined
      return toText(name, decrypt(toDataKey(organizationId, row), placeOfSecret(organizationId, name), row.encrypted))
    },

    /** Tries to decrypt up to `limit` secrets; answers how many it tried, and the names of those that failed. */
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

    /** Encrypts texts that other tables store; each decrypts only in its place. */
    async encryptTexts(queries: Queries, organizationId: string, texts: Placed<string>[]): Promise<Buffer[]> {
      const dataKey = await ensureDataKey(queries, organizationId)
      return texts.map(({ place, value }) =>
        encrypt(dataKey, placeElsewhere(organizationId, place), Buffer.from(value)),
      )
    },

    /**
     * Decrypts texts of `encryptTexts`.
     *
     * @throws WrongMasterKey, UnreadableSecret
     */
    async decryptTexts(organizationId: string, encrypted: Placed<Buffer>[]): Promise<string[]> {
      const row = await database.row<{ wrapped: Buffer; fingerprint: Buffer }>(
        `SELECT k.wrapped, m.fingerprint FROM organization_data_keys k CROSS JOIN master_key m
         WHERE k.organization_id = $1`,
        [organizationId],
      )
      if (!row) throw new UnreadableSecret('data key')
      const dataKey = toDataKey(organizationId, row)
      return encrypted.map(({ place, value }) =>
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
     * Replaces the previous master key by the current one: all data keys are encrypted again in one transaction. The secrets
     * stay as they are.
     *
     * @returns how many data keys there were; undefined when the current key is in use already
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

/** `workspaceNames` are those that may name it in webhooks; null for all. */
type ListedSecret = { name: string; updatedAt: Date; workspaceNames: string[] | null }

/** The secrets of an organization by name, without their values. */
export async function listSecretNames(queries: Queries, organizationId: string): Promise<ListedSecret[]> {
  return await queries.rows<ListedSecret>(
    `SELECT s.name, s.updated_at AS "updatedAt", CASE WHEN s.workspace_ids IS NOT NULL THEN
       ARRAY(SELECT w.name FROM workspaces w WHERE w.id = ANY(s.workspace_ids) ORDER BY w.name) END AS "workspaceNames"
     FROM organization_secrets s WHERE s.organization_id = $1 ORDER BY s.name`,
    [organizationId],
  )
}

/** SQL: whether a workspace may use the secret; any may use one that was allowed to all. */
const isAllowed = (secret: string, workspaceId: string) =>
  `(${secret}.workspace_ids IS NULL OR ${workspaceId}::uuid = ANY(${secret}.workspace_ids))`

/** Of some names those of secrets that are there, but not for this workspace. */
export async function listWithheldSecrets(queries: Queries, workspaceId: string, names: string[]): Promise<string[]> {
  const rows = await queries.rows<{ name: string }>(
    `SELECT s.name FROM organization_secrets s JOIN workspaces w ON w.organization_id = s.organization_id
     WHERE w.id = $1 AND s.name = ANY($2) AND NOT ${isAllowed('s', '$1')} ORDER BY s.name`,
    [workspaceId, names],
  )
  return rows.map((it) => it.name)
}

/**
 * Allows a secret to some workspaces, or to all. Webhooks of the others that name it fail from then on.
 *
 * @returns the first of the workspaces that the organization does not have; `done`, or `unknown` for the secret
 */
export async function allowSecret(
  database: Database,
  actor: Actor,
  name: string,
  workspaceNames: string[] | null,
): Promise<'done' | 'unknown' | { missingWorkspace: string }> {
  const { organizationId } = actor
  return await administer(database, actor, async (queries, note) => {
    const found = await queries.rows<{ id: string; name: string }>(
      'SELECT id, name FROM workspaces WHERE organization_id = $1 AND name = ANY($2)',
      [organizationId, workspaceNames ?? []],
    )
    const missingWorkspace = workspaceNames?.find((it) => !found.some((workspace) => workspace.name === it))
    if (missingWorkspace !== undefined) return { missingWorkspace }
    const row = await queries.row(
      `UPDATE organization_secrets SET workspace_ids = $3 WHERE organization_id = $1 AND name = $2 RETURNING name`,
      [organizationId, name, workspaceNames && found.map((it) => it.id)],
    )
    if (!row) return 'unknown'
    await note('secret.allowed', name, { workspaceNames })
    return 'done'
  })
}

/** True once something was encrypted. */
export async function isMasterKeyInUse(queries: Queries): Promise<boolean> {
  return (await queries.row('SELECT FROM master_key')) !== undefined
}

export type Secrets = ReturnType<typeof openSecrets>

/** A value, encrypted or not, and its place: table, row and column. */
type Placed<T> = { place: string[]; value: T }

function toText(name: string, value: Buffer | undefined): string {
  if (!value) throw new UnreadableSecret(name)
  return value.toString()
}

const placeElsewhere = (organizationId: string, place: string[]) => ['elsewhere', organizationId, ...place]
const placeOfDataKey = (organizationId: string) => ['data key', organizationId]
const placeOfSecret = (organizationId: string, name: string) => ['secret', organizationId, name]

/** Identifies a master key without revealing it. */
export function toFingerprint(key: Buffer): Buffer {
  return createHash('sha256').update('svc master key').update(key).digest().subarray(0, 16)
}
