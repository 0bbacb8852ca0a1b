import { Undeliverable } from '../../http/outgoing/failure.ts'
import type { refusalNames } from '../../http/sign-in/refusals.ts'

/** Why somebody could not sign in: the page for it says each in plain words (`web/accounts/sign-in-page.tsx`). */
export type SignInFault =
  | 'denied'
  | 'expired'
  | 'clock'
  | 'provider-away'
  | 'provider-wrong'
  | (typeof refusalNames)[keyof typeof refusalNames]

/** Tells an error of a provider by its code. Undefined for one that is not of the provider. */
export function toFault(error: unknown): SignInFault | undefined {
  if (findUndeliverable(error)) return 'provider-away'
  if (!(error instanceof Error) || !('code' in error)) return undefined
  const { code, error: said, status } = error as Error & { code?: unknown; error?: unknown; status?: unknown }
  if (said === 'access_denied' || said === 'consent_required' || said === 'login_required') return 'denied'
  // The code was used, or is too old.
  if (said === 'invalid_grant') return 'expired'
  if (said === 'temporarily_unavailable' || said === 'server_error') return 'provider-away'
  if (code === 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED') return 'clock'
  if (typeof status === 'number' && status >= 500) return 'provider-away'
  return typeof code === 'string' && code.startsWith('OAUTH_') ? 'provider-wrong' : undefined
}

function findUndeliverable(error: unknown): Undeliverable | undefined {
  if (error instanceof Undeliverable) return error
  return error instanceof Error && error.cause !== undefined ? findUndeliverable(error.cause) : undefined
}

/** True when the provider has refused what it was asked with, which is the end of it. */
export function isOver(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { error: said, status, code } = error as Error & { error?: unknown; status?: unknown; code?: unknown }
  return said === 'invalid_grant' || (code === 'OAUTH_WWW_AUTHENTICATE_CHALLENGE' && status === 401)
}
