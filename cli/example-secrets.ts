/** Every example secret of deploy/compose.yaml and deploy/.env.example begins with this. */
const mark = 'CHANGE_ME'

const carrySecrets = [
  'SVC_BOOTSTRAP_API_KEY',
  'SVC_MASTER_KEY',
  'CLICKHOUSE_URL',
  'POSTGRES_URL',
  'POSTGRES_READ_URL',
  'REDIS_URL',
  'OBJECTS_URL',
]

/** The names of settings that still hold an example secret. */
function findExampleSecrets(environment: Record<string, string | undefined>): string[] {
  return carrySecrets.filter((name) => {
    const value = environment[name] ?? ''
    return value.includes(mark) || Buffer.from(value, 'base64').toString('latin1').startsWith(mark)
  })
}

/** Undefined when no example secret is in use. */
export function warnOfExampleSecrets(environment: Record<string, string | undefined>): string | undefined {
  const found = findExampleSecrets(environment)
  if (found.length === 0) return undefined
  return (
    `${found.join(', ')} still hold the public secrets of the example. Set your own before others can reach this service ` +
    '(deploy/.env.example lists them)'
  )
}
