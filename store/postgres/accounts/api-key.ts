import { createHash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

/**
 * An API key is `svc_`, 256 random bits and their CRC-32, both in base 62. Secret scanners match `svc_[0-9A-Za-z]{49}` and
 * verify the checksum. Older keys, and keys from the settings, may have other forms and work as well.
 */
const keyPrefix = 'svc_'
const secretBytes = 32
const secretDigits = 43
const checksumDigits = 6
const shownCharacters = 12

const form = new RegExp(`^${keyPrefix}[0-9A-Za-z]{${secretDigits + checksumDigits}}$`)
const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

export function createApiKey(): string {
  const secret = toBase62(BigInt(`0x${randomBytes(secretBytes).toString('hex')}`))
  return keyPrefix + secret + toChecksum(secret)
}

/** True for what looks like one of our keys but cannot be one, because its checksum is wrong: a typo, or a guess. */
export function isMistyped(key: string): boolean {
  return form.test(key) && key.slice(-checksumDigits) !== toChecksum(key.slice(keyPrefix.length, -checksumDigits))
}

/** The hash under which a key is stored. */
export function toKeyHash(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}

/** Enough of a key's beginning to recognize it. */
export function toShownPrefix(key: string): string {
  return key.slice(0, Math.min(shownCharacters, key.length / 2))
}

function toChecksum(secret: string): string {
  let text = ''
  for (let rest = crc32(secret); rest > 0; rest = Math.floor(rest / 62)) text = digits[rest % 62] + text
  return text.padStart(checksumDigits, '0')
}

function toBase62(number: bigint): string {
  let text = ''
  for (let rest = number; rest > 0n; rest /= 62n) text = digits[Number(rest % 62n)] + text
  return text.padStart(secretDigits, '0')
}
