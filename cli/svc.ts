#!/usr/bin/env node
import { enableCompileCache, flushCompileCache } from 'node:module'
import path from 'node:path'
import { parseArgs } from 'node:util'

/**
 * The `svc` command: finds the subcommand and runs it. Whatever a person can mend is printed as a sentence and ends with
 * a non-zero exit, never with a stack trace (SVC_LOG_LEVEL=debug adds it). Everything else is imported when it is
 * needed, so that a library that is missing can be told like any other fault.
 */
type Command = {
  summary: string
  /** What may stand after the command, as its help shows it; nothing when absent. */
  words?: string
  options?: Record<string, { type: 'string' | 'boolean'; help: string; value?: string }>
  run(options: Record<string, string | boolean | undefined>, words: string[]): Promise<void>
}

const commands: Record<string, Command> = {
  up: {
    summary: 'Run everything in one process, on embedded stores where no address is given',
    run: async () => (await import('./up.ts')).up(),
  },
  ingest: {
    summary: 'Run the write tier',
    run: async () => (await import('./role.ts')).runRole('ingest'),
  },
  worker: {
    summary: 'Run the worker that moves the queue into ClickHouse, and delivers webhooks',
    options: { 'without-webhooks': { type: 'boolean', help: 'Leave those to processes of "svc webhook-worker"' } },
    run: async ({ 'without-webhooks': withoutWebhooks }) =>
      (await import('./role.ts')).runRole('worker', ...(withoutWebhooks ? [] : (['webhook-worker'] as const))),
  },
  'webhook-worker': {
    summary: 'Run a worker that delivers webhooks, and does nothing else',
    run: async () => (await import('./role.ts')).runRole('webhook-worker'),
  },
  api: {
    summary: 'Run the tier of reads and of everything relational',
    run: async () => (await import('./role.ts')).runRole('api'),
  },
  migrate: {
    summary: 'Bring the stores to this version; make the first admin and key',
    options: { wait: { type: 'boolean', help: 'Change nothing: wait until the stores are at this version' } },
    run: async ({ wait }) => {
      const { migrate, waitUntilMigrated } = await import('./migrate.ts')
      await (wait ? waitUntilMigrated() : migrate())
    },
  },
  doctor: {
    summary: 'Check settings, stores and the running service',
    options: { json: { type: 'boolean', help: 'Print the findings as JSON' } },
    run: async ({ json }) => (await import('./doctor/doctor.ts')).doctor({ json: json === true }),
  },
  settings: {
    summary: 'Print every setting with its present value, without secrets',
    options: { markdown: { type: 'boolean', help: 'Print the page docs/settings.md instead' } },
    run: async ({ markdown }) => (await import('./settings/command.ts')).settings({ markdown: markdown === true }),
  },
  backup: {
    summary: 'Copy everything that is kept, while the service goes on; look at copies, check and delete them',
    words: '[list | verify [ID] | prune]',
    options: {
      to: {
        type: 'string',
        value: 'PLACE',
        help: 'A folder, or s3://access:secret@host/bucket (default: $SVC_BACKUP_URL)',
      },
      keep: { type: 'string', value: 'N', help: 'Delete all but the newest N afterwards' },
      json: { type: 'boolean', help: 'Print the outcome as JSON' },
    },
    run: async ({ to, keep, json }, words) =>
      (await import('./backup/backup.ts')).backup(words, {
        place: to === undefined ? undefined : String(to),
        keep: keep === undefined ? undefined : String(keep),
        json: json === true,
      }),
  },
  restore: {
    summary: 'Fill empty stores with a copy that "svc backup" has made; the service must be stopped',
    words: '[ID]',
    options: {
      from: { type: 'string', value: 'PLACE', help: 'Where the backups are, as for "svc backup --to"' },
      replace: { type: 'boolean', help: 'Delete what the stores hold, if they are not empty' },
      json: { type: 'boolean', help: 'Print the outcome as JSON' },
    },
    run: async ({ from, replace, json }, words) =>
      (await import('./backup/restore.ts')).restore(words, {
        place: from === undefined ? undefined : String(from),
        replace: replace === true,
        json: json === true,
      }),
  },
  'dead-letters': {
    summary: 'Look at rows that ClickHouse refused for good, and replay them once the reason is gone',
    words: 'list | show ID | replay ID | replay all | discard ID',
    options: { json: { type: 'boolean', help: 'Print what is found as JSON' } },
    run: async ({ json }, words) =>
      (await import('./admin/dead-letters.ts')).deadLetters(words, { json: json === true }),
  },
  users: {
    summary: 'List, add and remove users, and make keys for them',
    words: 'list | add NAME | key NAME | remove NAME',
    options: {
      organization: { type: 'string', value: 'NAME', help: 'Whose users (default: default)' },
      workspace: { type: 'string', value: 'NAME', help: 'add: the workspace (default: one of the user’s name)' },
      admin: { type: 'boolean', help: 'add: as an admin of the organization' },
      rotate: { type: 'boolean', help: 'key: in the place of all keys the user has' },
      json: { type: 'boolean', help: 'Print what is found or made as JSON' },
    },
    run: async ({ organization, workspace, admin, rotate, json }, words) =>
      (await import('./admin/users.ts')).users(words, {
        organization: String(organization ?? 'default'),
        workspace: workspace === undefined ? undefined : String(workspace),
        admin: admin === true,
        rotate: rotate === true,
        json: json === true,
      }),
  },
  secrets: {
    summary: 'Take a new master key into use for the secrets of organizations',
    words: 'rotate',
    options: { json: { type: 'boolean', help: 'Print the outcome as JSON' } },
    run: async ({ json }, words) => (await import('./admin/secrets.ts')).secrets(words, { json: json === true }),
  },
  demo: {
    summary: 'Train a small model, log it over HTTP, and read everything back',
    options: {
      url: { type: 'string', value: 'URL', help: 'The service (default: http://127.0.0.1:8080)' },
      key: { type: 'string', value: 'KEY', help: 'The API key (default: $SVC_API_KEY)' },
      workspace: { type: 'string', value: 'NAME', help: 'The workspace (default: the key’s own)' },
      project: { type: 'string', value: 'NAME', help: 'The project (default: demo)' },
      epochs: { type: 'string', value: 'N', help: 'How long to train (default: 30)' },
      seed: { type: 'string', value: 'N', help: 'For another run of the dice (default: 7)' },
      json: { type: 'boolean', help: 'Print the report as JSON' },
    },
    run: async (options) => (await import('./demo/command.ts')).demo(options),
  },
}

const wrongUsage = 2

async function main([name, ...rest]: string[]) {
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') return printHelp()
  if (name === '--version' || name === '-V') {
    const { version } = await import('./version.ts')
    return void process.stdout.write(`${version}\n`)
  }
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (!command) return usageError(`svc: there is no command "${name}"; "svc help" lists them.`)

  const options = Object.fromEntries(Object.entries(command.options ?? {}).map(([key, { type }]) => [key, { type }]))
  let parsed: ReturnType<typeof parseArgs>
  try {
    const known = { ...options, help: { type: 'boolean', short: 'h' } } as const
    parsed = parseArgs({ args: rest, options: known, allowPositionals: command.words !== undefined })
  } catch (error) {
    const reason = (error as Error).message.split('. ')[0]
    return usageError(`svc ${name}: ${reason}; "svc ${name} --help" lists what there is.`)
  }
  if (parsed.values.help) return printCommandHelp(name, command)
  const { loadEnvFile } = await import('./settings.ts')
  loadEnvFile()
  await command.run(parsed.values as Record<string, string | boolean | undefined>, parsed.positionals)
  // A process that is killed later would write nothing.
  flushCompileCache()
}

function usageError(message: string) {
  process.stderr.write(`${message}\n`)
  process.exitCode = wrongUsage
}

function printHelp() {
  const width = Math.max(...Object.keys(commands).map((it) => it.length))
  const lines = Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`)
  process.stdout.write(
    `Usage: svc <command> [options]\n\n${lines.join('\n')}\n\n` +
      'Settings come from the environment or from a file .env; "svc settings" lists them.\n' +
      '"svc <command> --help" tells a command’s options.\n',
  )
}

function printCommandHelp(name: string, { summary, words, options = {} }: Command) {
  const rows = Object.entries(options).map(([key, it]) => [`--${key}${it.value ? ` ${it.value}` : ''}`, it.help])
  const width = Math.max(0, ...rows.map(([flag]) => flag?.length ?? 0))
  const lines = rows.map(([flag, help]) => `  ${flag?.padEnd(width)}  ${help}`)
  process.stdout.write(
    `Usage: svc ${name}${words ? ` ${words}` : ''}${rows.length > 0 ? ' [options]' : ''}\n\n${summary}.\n`,
  )
  if (lines.length > 0) process.stdout.write(`\n${lines.join('\n')}\n`)
}

function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code = (error as NodeJS.ErrnoException).code
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') return error.message
  return `${error.message.split(' imported from ')[0]}. Install what is needed: run "npm install" in ${root}.`
}

// A reader that goes away (a closed terminal, "| head") is no reason to stop in the middle of something.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)

// What Node makes of the sources is kept for the next start, which then takes half as long. Not in the folder for temporary
// files, where another user could put something else; where nothing can be written nothing is kept.
const root = path.dirname(import.meta.dirname)
enableCompileCache(process.env.NODE_COMPILE_CACHE ?? path.join(root, 'node_modules', '.cache', 'svc'))

try {
  await main(process.argv.slice(2))
} catch (error) {
  process.stderr.write(`svc: ${explain(error)}\n`)
  if (process.env.SVC_LOG_LEVEL === 'debug') console.error(error)
  // Something may still be open after a failed start: it must not keep the process alive.
  process.exit(1)
}
