import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

/** AES-256-GCM: a nonce of 12 bytes, a tag of 16, then as many bytes as were given. */
const cipher = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/** Encrypts with the place as additional data: the bytes decrypt only with the same key and place. */
export function encrypt(key: Buffer, place: string[], plain: Buffer): Buffer {
  const nonce = randomBytes(nonceBytes)
  const sealing = createCipheriv(cipher, key, nonce, { authTagLength: tagBytes }).setAAD(toBytes(place))
  const sealed = Buffer.concat([sealing.update(plain), sealing.final()])
  return Buffer.concat([nonce, sealing.getAuthTag(), sealed])
}

/** Undefined when the key or the place is another one, or the bytes were changed. */
export function decrypt(key: Buffer, place: string[], bytes: Buffer): Buffer | undefined {
  if (bytes.length < nonceBytes + tagBytes) return undefined
  const opening = createDecipheriv(cipher, key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
  opening.setAAD(toBytes(place)).setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
  try {
    return Buffer.concat([opening.update(bytes.subarray(nonceBytes + tagBytes)), opening.final()])
  } catch {
    return undefined
  }
}

/** As JSON, so that no two places are the same bytes. */
function toBytes(place: string[]): Buffer {
  return Buffer.from(JSON.stringify(place))
}
