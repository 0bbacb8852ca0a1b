import { randomBytes } from 'node:crypto'
import type { Secrets } from '../accounts/secrets.ts'
import type { Queries } from '../database.ts'

/** What the dispatcher needs to send to a receiver, decrypted. */
export type DeliveryConfig = {
  organizationId: string
  workspaceId: string
  url: string
  headers: Record<string, string>
  secretRef: string | null
  /** The current one first. */
  signingSecrets: string[]
}

type EncryptedDeliveryConfig = Pick<DeliveryConfig, 'organizationId' | 'workspaceId' | 'url' | 'secretRef'> & {
  headers: Buffer
  signingSecret: Buffer
  oldSigningSecret: Buffer | null
  oldSignsUntilMs: bigint | null
}

/** Undefined when the receiver is gone or disabled. Fails as `Secrets.decryptTexts` does. */
export async function findDeliveryConfig(
  { queries, secrets }: { queries: Queries; secrets: Secrets },
  id: string,
  nowMs: number,
): Promise<DeliveryConfig | undefined> {
  const row = await queries.row<EncryptedDeliveryConfig>(
    `SELECT w.organization_id AS "organizationId", w.id AS "workspaceId", r.url, r.secret_ref AS "secretRef", r.headers,
       r.signing_secret AS "signingSecret", r.old_signing_secret AS "oldSigningSecret",
       r.old_signs_until_ms AS "oldSignsUntilMs"
     FROM webhook_receivers r JOIN workspaces w ON w.id = r.workspace_id
     WHERE r.id = $1 AND r.removed_at_ms IS NULL AND r.disabled_at_ms IS NULL`,
    [id],
  )
  if (!row) return undefined
  const { organizationId, workspaceId, url, secretRef, headers, signingSecret, oldSigningSecret, oldSignsUntilMs } = row
  const alsoSigns = oldSigningSecret && oldSignsUntilMs !== null && oldSignsUntilMs > nowMs ? [oldSigningSecret] : []
  const [openHeaders = '{}', ...signingSecrets] = await secrets.decryptTexts(organizationId, [
    { place: placeOfHeaders(id), value: headers },
    ...[signingSecret, ...alsoSigns].map((value) => ({ place: placeOfSigningSecret(id), value })),
  ])
  return { organizationId, workspaceId, url, secretRef, headers: JSON.parse(openHeaders), signingSecrets }
}

/** Deliveries carry signatures by the old and the new secret for so long after a rotation. */
export const oldSecretSignsForMs = 24 * 3_600_000

/** Rotates the signing secret. The new one is returned this once; the old one keeps signing for a day. */
export async function replaceSigningSecret(
  queries: Queries,
  secrets: Secrets,
  { id, organizationId, nowMs }: { id: string; organizationId: string; nowMs: number },
): Promise<string> {
  const secret = createSigningSecret()
  const [encrypted] = await secrets.encryptTexts(queries, organizationId, [
    { place: placeOfSigningSecret(id), value: secret },
  ])
  await queries.row(
    `UPDATE webhook_receivers SET old_signing_secret = signing_secret, old_signs_until_ms = $3, signing_secret = $2
     WHERE id = $1`,
    [id, encrypted, nowMs + oldSecretSignsForMs],
  )
  return secret
}

export const placeOfHeaders = (id: string) => ['webhook_receivers', id, 'headers']
/** The old secret has the same place: a rotation moves the encrypted bytes from column to column. */
export const placeOfSigningSecret = (id: string) => ['webhook_receivers', id, 'signing_secret']

const signingSecretBytes = 32

export function createSigningSecret(): string {
  return `whsec_${randomBytes(signingSecretBytes).toString('base64')}`
}
