/** Every secret of deploy/compose.yaml and deploy/.env.example begins with this until somebody chooses another. */
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

/** The settings whose secret everybody knows, because it is the one of the example; never the secrets themselves. */
function findExampleSecrets(environment: Record<string, string | undefined>): string[] {
  return carrySecrets.filter((name) => {
    const value = environment[name] ?? ''
    return value.includes(mark) || Buffer.from(value, 'base64').toString('latin1').startsWith(mark)
  })
}

/** What to do about them; undefined when there are none. */
export function warnOfExampleSecrets(environment: Record<string, string | undefined>): string | undefined {
  const found = findExampleSecrets(environment)
  if (found.length === 0) return undefined
  return (
    `secrets that everybody knows are in ${found.join(', ')}: they are those of the example. Before others can reach ` +
    'this service, set your own (deploy/.env.example lists them)'
  )
}
