import type { Refusal } from '../../store/postgres/identities/identities.ts'

/** The refusals as the address of the sign-in page and `/metrics` have them. */
export const refusalNames = {
  unknown: 'unknown-user',
  removed: 'removed-user',
  notAllowed: 'not-allowed',
  emailNotVerified: 'email-not-verified',
} as const satisfies Record<Refusal, string>

/** Why somebody whom a provider has signed in may not use the service, for that person. */
export function describeRefusal(refusal: Refusal, userName: string): string {
  const name = JSON.stringify(userName.slice(0, 100))
  switch (refusal) {
    case 'unknown':
      return `You are signed in as ${name}, but there is no such user here. Ask an admin to add you.`
    case 'removed':
      return `You are signed in as ${name}, but an admin has removed that user here.`
    case 'notAllowed':
      return `You are signed in as ${name}, but your groups or your mail address may not use this service. Ask an admin.`
    case 'emailNotVerified':
      return `You are signed in as ${name}, but your provider has not verified your mail address. Verify it there, then try again.`
  }
}
