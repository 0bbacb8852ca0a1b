/** What a data type, a queue or a kind of act is called on these pages. Names of a newer service stand as they are. */
const types: Record<string, string> = {
  metrics: 'Metrics',
  metricChunks: 'Metrics in batches',
  systemMetrics: 'System metrics',
  output: 'Output lines',
  parameters: 'Parameters',
  other: 'Other values',
  events: 'Monitoring events',
  labels: 'Labels sent later',
  eventValues: 'Values of events',
  eventValueChunks: 'Values of events in batches',
  voidedEvents: 'Replaced events',
}

export const toTypeName = (type: string) => types[type] ?? type

/** What is counted of a type, as in “1,000 points”. */
const units: Record<string, string> = {
  metrics: 'point',
  systemMetrics: 'point',
  output: 'line',
  parameters: 'value',
  other: 'value',
}

export const toUnit = (type: string) => units[type] ?? 'event'

/** The acts of the audit log by what they are about, as the service names them. */
export const acts: { about: string; acts: Record<string, string> }[] = [
  {
    about: 'Users and service accounts',
    acts: {
      'user.created': 'added a user',
      'user.changed': 'changed a user',
      'user.removed': 'removed a user',
      'user.suspended': 'suspended a user',
      'user.restored': 'let a user in again',
      'identity.linked': 'linked a sign-in',
      'identity.forgotten': 'let a removed user sign in again',
      'service-account.created': 'added a service account',
      'service-account.removed': 'removed a service account',
      'workspace-member.set': 'set a member',
      'workspace-member.removed': 'removed a member',
    },
  },
  {
    about: 'Keys and sessions',
    acts: {
      'key.created': 'made a key',
      'key.revoked': 'ended a key',
      'key.rotated': 'replaced the keys',
      'session.opened': 'signed in',
      'session.ended': 'ended a session',
      'sign-in-link.made': 'made a sign-in link',
    },
  },
  {
    about: 'Rules',
    acts: {
      'limits.set': 'set limits',
      'retention.set': 'set the retention',
      'audit.expired': 'deleted old entries of this log',
    },
  },
  {
    about: 'Webhooks and secrets',
    acts: {
      'webhooks.set': 'set webhooks',
      'webhook.enabled': 'enabled a webhook',
      'webhook.deleted': 'deleted a webhook',
      'webhook-secret.made': 'made a signing secret',
      'secret.set': 'set a secret',
      'secret.allowed': 'allowed a secret to workspaces',
      'secret.deleted': 'deleted a secret',
      'secrets.rewrapped': 'changed the master key',
    },
  },
  {
    about: 'Data',
    acts: {
      'project.imported': 'imported a project',
      'segment.created': 'made a segment',
      'segment.deleted': 'deleted a segment',
      'dead-letter.replayed': 'replayed a dead letter',
      'dead-letter.discarded': 'discarded a dead letter',
    },
  },
]

const words = Object.assign({}, ...acts.map((it) => it.acts)) as Record<string, string>

export const toActWords = (act: string) => words[act] ?? act

/** The details of an entry in one line, without what stands in its subject: `set: output 90, metrics 365`. */
export const toDetails = (details: Record<string, unknown>, subject: string) =>
  Object.entries(details)
    .filter(([, value]) => !isEmpty(value) && value !== subject)
    .map(([name, value]) => `${name}: ${toText(value)}`)
    .join(' · ')

const isEmpty = (value: unknown) =>
  value === null || (typeof value === 'object' && Object.keys(value as object).length === 0)

function toText(value: unknown): string {
  if (Array.isArray(value)) return value.map(toText).join(', ')
  if (typeof value !== 'object' || value === null) return String(value)
  return Object.entries(value)
    .map(([name, it]) => `${name} ${toText(it)}`)
    .join(', ')
}

/** Bytes in hex as lines of sixteen, with their text beside them. */
export function toHexDump(hex: string): string {
  const bytes = hex.match(/../g) ?? []
  const lines: string[] = []
  for (let at = 0; at < bytes.length; at += 16) {
    const line = bytes.slice(at, at + 16)
    const text = line
      .map((it) => Number.parseInt(it, 16))
      .map((it) => (it > 31 && it < 127 ? String.fromCharCode(it) : '.'))
    lines.push(`${at.toString(16).padStart(4, '0')}  ${line.join(' ').padEnd(47)}  ${text.join('')}`)
  }
  return lines.join('\n')
}
