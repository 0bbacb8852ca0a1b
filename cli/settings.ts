import { z } from 'zod'

/**
 * Every setting, with its default and who would change it. They come from the environment, or from a file `.env` where
 * the command is run; the environment wins.
 */

const port = z.coerce
  .number('must be a port')
  .int('must be a port')
  .min(0, 'must be a port')
  .max(65_535, 'must be a port')
const count = (least: number) =>
  z.coerce.number('must be a number').int('must be a whole number').min(least, `must be ${least} or more`)
const url = (schemes: string) =>
  z.url({ protocol: new RegExp(`^(${schemes})$`), error: `must be a URL (${schemes.replaceAll('|', ', ')}://...)` })

const fields = z.object({
  /** Where to listen. Anyone who wants others to reach the service sets 0.0.0.0. */
  SVC_HOST: z.string().default('127.0.0.1'),
  SVC_PORT: port.default(8080),
  /** Where the embedded stores keep their files. */
  SVC_DATA_DIR: z.string().default('data'),
  /** The address people reach the service at, when it stands behind a proxy: used in links. */
  SVC_PUBLIC_URL: url('https?').optional(),
  /** The first admin's key, for those who want to choose it: deployments by script, tests. */
  SVC_BOOTSTRAP_API_KEY: z
    .string()
    .min(16, 'must have 16 characters or more')
    .regex(/^[\x21-\x7e]+$/, 'must have visible ASCII characters only')
    .optional(),
  /** Further header names that carry a key, for clients that use their own; separated by commas. */
  SVC_AUTH_HEADERS: z
    .string()
    .default('')
    .transform((names) =>
      names
        .toLowerCase()
        .split(/[\s,]+/)
        .filter(Boolean),
    ),
  /** The stores; without an address, `svc up` starts an embedded one. */
  CLICKHOUSE_URL: url('https?').optional(),
  POSTGRES_URL: url('postgres|postgresql').optional(),
  REDIS_URL: url('redis|rediss').optional(),
  /** Lets several deployments share one Redis. */
  SVC_QUEUE_PREFIX: z
    .string()
    .regex(/^[\w-]+$/, 'must have letters, digits, _ and - only')
    .default('svc'),
  /** Blocks in one queue over which writes are refused with 503. A block is up to 4 MiB before compression. */
  SVC_QUEUE_BLOCKS_MAX: count(1).default(20_000),
  /** How long a write waits for company before it goes to the queue: more is cheaper, less is quicker. */
  SVC_COMMIT_WAIT_MS: count(0).default(2),
  /** Points a minute that one experiment, and one API key, may send; each data type has its own count. */
  SVC_POINTS_PER_MINUTE: count(1).default(1_200_000),
  SVC_KEY_POINTS_PER_MINUTE: count(1).default(120_000_000),
  /** How long a stopping process may take to finish what it has begun. */
  SVC_DRAIN_SECONDS: count(1).default(25),
  SVC_LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).optional(),
})

/** Where the stores of a process are. */
export type StoreUrls = { clickhouseUrl: string; postgresUrl: string; redisUrl: string | undefined }

export type Settings = ReturnType<typeof parseSettings>

type Environment = Record<string, string | undefined>

/**
 * Reads the settings from an environment.
 *
 * @throws Error that lists every fault at once
 */
export function parseSettings(environment: Environment) {
  return parse(environment, [])
}

/**
 * Reads the settings of a command that works on given stores only: the addresses must be there.
 *
 * @throws Error that lists every fault at once
 */
export function parseRoleSettings(environment: Environment) {
  return parse(environment, ['CLICKHOUSE_URL', 'POSTGRES_URL']) as Settings & StoreUrls
}

function parse(environment: Environment, needed: string[]) {
  // An empty variable is what a compose file makes of one that was not given.
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''))
  const parsed = fields.safeParse(given)
  const faults = (parsed.error?.issues ?? []).map((it) => `  ${it.path.join('.')}: ${it.message}`)
  for (const name of needed) {
    if (given[name] === undefined) faults.push(`  ${name}: must be set: only "svc up" starts stores by itself`)
  }
  if (!parsed.success || faults.length > 0) throw new Error(`These settings are wrong:\n${faults.join('\n')}`)
  const it = parsed.data
  return {
    host: it.SVC_HOST,
    port: it.SVC_PORT,
    dataFolder: it.SVC_DATA_DIR,
    publicUrl: it.SVC_PUBLIC_URL?.replace(/\/+$/, ''),
    bootstrapApiKey: it.SVC_BOOTSTRAP_API_KEY,
    authHeaders: it.SVC_AUTH_HEADERS,
    clickhouseUrl: it.CLICKHOUSE_URL,
    postgresUrl: it.POSTGRES_URL,
    redisUrl: it.REDIS_URL,
    queuePrefix: it.SVC_QUEUE_PREFIX,
    queueBlocksMax: it.SVC_QUEUE_BLOCKS_MAX,
    commitWaitMs: it.SVC_COMMIT_WAIT_MS,
    limits: { perExperimentAMinute: it.SVC_POINTS_PER_MINUTE, perKeyAMinute: it.SVC_KEY_POINTS_PER_MINUTE },
    drainMs: it.SVC_DRAIN_SECONDS * 1_000,
    logLevel: it.SVC_LOG_LEVEL,
  }
}

/** Reads `.env` where the command is run, if there is one. What the environment has already stays. */
export function loadEnvFile() {
  try {
    process.loadEnvFile('.env')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw new Error(`The file .env cannot be read: ${(error as Error).message}`, { cause: error })
  }
}
