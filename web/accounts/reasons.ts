/** Why somebody has to sign in, and what to do; the service leads to the page with one of these. */
export const reasons = {
  'link-used': 'This link was used already, or is older than ten minutes. Each works once.',
  'session-ended': 'Your session has ended. Sign in again to go on where you were.',
  'signed-out': 'You are signed out.',
  denied: 'You did not sign in there, or did not agree. Try again, or sign in another way.',
  expired: 'That took longer than ten minutes, or was begun in another browser. Try again.',
  clock:
    'The clocks of this service and of the identity provider differ by more than a minute, so its answer cannot be trusted. ' +
    'Tell an admin: one of the two clocks must be set right.',
  'provider-away': 'The identity provider does not answer. Try again in a few minutes, or tell an admin.',
  'provider-wrong':
    'The identity provider gave an answer that this service does not accept. Tell an admin: the log has the cause.',
  'unknown-user': 'You are signed in there, but there is no such user here. Ask an admin to add you.',
  'removed-user': 'You are signed in there, but an admin has removed your user here.',
  'not-allowed':
    'You are signed in there, but your groups or your mail address may not use this service. Ask an admin.',
  'email-not-verified': 'Your mail address is not verified there. Verify it, then try again.',
} as const

export type Reason = keyof typeof reasons

export const isReason = (text: unknown): text is Reason => typeof text === 'string' && Object.hasOwn(reasons, text)
