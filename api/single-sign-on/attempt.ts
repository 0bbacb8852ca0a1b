import { createHash, hkdfSync, randomBytes } from 'node:crypto'
import { decrypt, encrypt } from '../../store/postgres/accounts/encryption.ts'
import type { Checks } from './provider.ts'

/**
 * What the browser keeps while a person signs in at a provider: an encrypted cookie, so that nothing is stored for people who never
 * come back. It ties the answer of the provider to the browser that has asked. Its name has a part of the state, so that two tabs
 * can sign in at a time.
 */
export type Attempt = Checks & {
  provider: string
  /** The path of the page that was asked for, below the address of the service. */
  to: string
  untilMs: number
}

export const attemptSeconds = 600

const place = ['sign-in attempt']
const random = () => randomBytes(32).toString('base64url')

export function createAttempts(masterKey: Buffer, now: () => number) {
  const key = Buffer.from(hkdfSync('sha256', masterKey, '', 'svc sign-in attempt', 32))
  return {
    begin: (provider: string, to: string): Attempt => ({
      provider,
      to,
      state: random(),
      nonce: random(),
      verifier: random(),
      untilMs: now() + attemptSeconds * 1_000,
    }),

    seal: (attempt: Attempt) => encrypt(key, place, Buffer.from(JSON.stringify(attempt))).toString('base64url'),

    /** Undefined when it is not one of ours, of another provider or state, or too old. */
    open(sealed: string | undefined, provider: string, state: string): Attempt | undefined {
      const bytes = sealed === undefined ? undefined : decrypt(key, place, Buffer.from(sealed, 'base64url'))
      if (!bytes) return undefined
      const attempt = JSON.parse(bytes.toString()) as Attempt
      const isOurs = attempt.provider === provider && attempt.state === state && attempt.untilMs > now()
      return isOurs ? attempt : undefined
    },
  }
}

/** The end of the name of the cookie. */
export const toAttemptName = (state: string) => createHash('sha256').update(state).digest('hex').slice(0, 12)

/** A path of this service, whoever wrote it: anything else would lead elsewhere. */
export function toOwnPath(text: unknown): string {
  if (typeof text !== 'string' || text.length > 2_000 || !/^\/(?![/\\])[\x21-\x7e]*$/.test(text)) return '/'
  return text.startsWith('/-/sign-in') || text.startsWith('/-/oidc') ? '/' : text
}
