#!/usr/bin/env node
import { enableCompileCache, flushCompileCache } from 'node:module'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { setFlagsFromString } from 'node:v8'

/**
 * The `svc` command: finds the subcommand and runs it. An error is printed as a sentence, without a stack trace
 * (SVC_LOG_LEVEL=debug adds it), and the exit code is not 0. Commands are imported on demand, so that a missing library is
 * reported like any other error.
 */
type Command = {
  summary: string
  /** The arguments after the command, as its help shows them; none when absent. */
  words?: string
  options?: Record<string, { type: 'string' | 'boolean'; help: string; value?: string }>
  run(options: Record<string, string | boolean | undefined>, words: string[]): Promise<void>
}

const commands: Record<string, Command> = {
  up: {
    summary: 'Run everything in one process, with embedded stores unless addresses are given',
    options: { 'no-browser': { type: 'boolean', help: 'Print the sign-in link, but open no browser' } },
    run: async (options) => (await import('./up.ts')).up({ opensBrowser: options['no-browser'] !== true }),
  },
  ingest: {
    summary: 'Run the tier that takes writes of the stream',
    run: async () => {
      collectHeapSeldom({ growsBy: 300 })
      await (await import('./role.ts')).runRole('ingest')
    },
  },
  worker: {
    summary: 'Run a worker that moves the queue into ClickHouse and delivers webhooks',
    options: { 'without-webhooks': { type: 'boolean', help: 'Leave webhooks to "svc webhook-worker"' } },
    run: async ({ 'without-webhooks': withoutWebhooks }) => {
      collectHeapSeldom({ growsBy: 300 })
      await (await import('./role.ts')).runRole('worker', ...(withoutWebhooks ? [] : (['webhook-worker'] as const)))
    },
  },
  'webhook-worker': {
    summary: 'Run a worker that only delivers webhooks',
    run: async () => (await import('./role.ts')).runRole('webhook-worker'),
  },
  api: {
    summary: 'Run the tier that answers all other calls',
    run: async () => {
      collectHeapSeldom({ growsBy: 100 })
      keepYoungGenerationSmall()
      await (await import('./role.ts')).runRole('api')
    },
  },
  migrate: {
    summary: 'Migrate the stores to this version; make the first admin and key',
    options: { wait: { type: 'boolean', help: 'Only wait until the stores are migrated' } },
    run: async ({ wait }) => {
      const { migrate, waitUntilMigrated } = await import('./migrate.ts')
      await (wait ? waitUntilMigrated() : migrate())
    },
  },
  doctor: {
    summary: 'Check settings, stores and the running service',
    options: { json: { type: 'boolean', help: 'Print the results as JSON' } },
    run: async ({ json }) => (await import('./doctor/doctor.ts')).doctor({ json: json === true }),
  },
  settings: {
    summary: 'Print every setting with its present value, without secrets',
    options: { markdown: { type: 'boolean', help: 'Print the page docs/settings.md instead' } },
    run: async ({ markdown }) => (await import('./settings/command.ts')).settings({ markdown: markdown === true }),
  },
  backup: {
    summary: 'Back up everything while the service runs; list, verify and delete backups',
    words: '[list | verify [ID] | prune]',
    options: {
      to: {
        type: 'string',
        value: 'PLACE',
        help: 'A folder, or s3://access:secret@host/bucket (default: $SVC_BACKUP_URL)',
      },
      keep: { type: 'string', value: 'N', help: 'Then delete all backups but the newest N' },
      json: { type: 'boolean', help: 'Print the result as JSON' },
    },
    run: async ({ to, keep, json }, words) =>
      (await import('./backup/backup.ts')).backup(words, {
        place: toText(to),
        keep: toText(keep),
        json: json === true,
      }),
  },
  restore: {
    summary: 'Restore a backup into empty stores; the service must be stopped',
    words: '[ID]',
    options: {
      from: { type: 'string', value: 'PLACE', help: 'The place of the backups, as for "svc backup --to"' },
      replace: { type: 'boolean', help: 'Delete the contents of the stores first' },
      json: { type: 'boolean', help: 'Print the result as JSON' },
    },
    run: async ({ from, replace, json }, words) =>
      (await import('./backup/restore.ts')).restore(words, {
        place: toText(from),
        replace: replace === true,
        json: json === true,
      }),
  },
  'dead-letters': {
    summary: 'List, show, replay and discard rows that ClickHouse refused for good',
    words: 'list | show ID | replay ID | replay all | discard ID',
    options: { json: { type: 'boolean', help: 'Print the result as JSON' } },
    run: async ({ json }, words) =>
      (await import('./admin/dead-letters.ts')).deadLetters(words, { json: json === true }),
  },
  users: {
    summary: 'List, add and remove users; give them roles; make, list and revoke keys',
    words: 'list | add NAME | role NAME ROLE | remove NAME | readmit NAME | key NAME | keys [NAME] | revoke KEY-ID',
    options: {
      organization: { type: 'string', value: 'NAME', help: 'The organization (default: default)' },
      workspace: {
        type: 'string',
        value: 'NAME',
        help:
          'add: the workspace (default: a new one with the name of the user); role: the workspace of the role (default: the ' +
          'organization); key: the only workspace that the key is for',
      },
      admin: { type: 'boolean', help: 'add: make the user an admin of the organization' },
      role: { type: 'string', value: 'ROLE', help: 'add: member, auditor or admin of the organization' },
      name: { type: 'string', value: 'TEXT', help: 'key: what to call it' },
      scope: { type: 'string', value: 'SCOPE', help: 'key: read, write (and read) or all (default: all)' },
      project: { type: 'string', value: 'NAME', help: 'key: the only project of the workspace that the key is for' },
      days: { type: 'string', value: 'N', help: 'key: end it after so many days' },
      rotate: { type: 'boolean', help: 'key: revoke all other keys of the user' },
      json: { type: 'boolean', help: 'Print the result as JSON' },
    },
    run: async ({ organization, workspace, admin, role, name, scope, project, days, rotate, json }, words) =>
      (await import('./admin/users.ts')).users(words, {
        organization: String(organization ?? 'default'),
        workspace: toText(workspace),
        admin: admin === true,
        role: toText(role),
        keyName: toText(name),
        scope: toText(scope),
        project: toText(project),
        days: toText(days),
        rotate: rotate === true,
        json: json === true,
      }),
  },
  limits: {
    summary: 'Show what workspaces use of their limits, and set limits of one or of the organization',
    words: '[show] | set LIMIT=VALUE...',
    options: {
      organization: { type: 'string', value: 'NAME', help: 'The organization (default: default)' },
      workspace: { type: 'string', value: 'NAME', help: 'The workspace (show: all; set: the organization)' },
      json: { type: 'boolean', help: 'Print the result as JSON' },
    },
    run: async ({ organization, workspace, json }, words) =>
      (await import('./admin/limits.ts')).limits(words, {
        organization: String(organization ?? 'default'),
        workspace: toText(workspace),
        json: json === true,
      }),
  },
  'sign-in-link': {
    summary: 'Print a link that signs a browser in once, as the first admin or as a user',
    words: '[NAME]',
    options: {
      organization: { type: 'string', value: 'NAME', help: 'The organization (default: default)' },
      json: { type: 'boolean', help: 'Print the result as JSON' },
    },
    run: async ({ organization, json }, words) =>
      (await import('./admin/sign-in-link.ts')).signInLink(words, {
        organization: String(organization ?? 'default'),
        json: json === true,
      }),
  },
  secrets: {
    summary: 'Change the master key',
    words: 'rotate',
    options: { json: { type: 'boolean', help: 'Print the result as JSON' } },
    run: async ({ json }, words) => (await import('./admin/secrets.ts')).secrets(words, { json: json === true }),
  },
  audit: {
    summary: 'Check that nobody altered the audit log, or export it with its hashes',
    words: 'verify [FILE] | export',
    options: {
      organization: { type: 'string', value: 'NAME', help: 'The organization (verify: all; export: default)' },
      against: { type: 'string', value: 'FILE', help: 'verify: the log must have what this earlier export has' },
      out: { type: 'string', value: 'FILE', help: 'export: a new file (default: standard output)' },
      json: { type: 'boolean', help: 'verify: print the result as JSON' },
    },
    run: async ({ organization, against, out, json }, words) =>
      (await import('./admin/audit.ts')).audit(words, {
        organization: toText(organization),
        against: toText(against),
        out: toText(out),
        json: json === true,
      }),
  },
  export: {
    summary: 'Write a project into files, or with --archive into one that "svc import" takes; run again, it resumes',
    options: {
      url: { type: 'string', value: 'URL', help: 'The service (default: http://127.0.0.1:8080)' },
      key: { type: 'string', value: 'KEY', help: 'The API key (default: $SVC_API_KEY)' },
      workspace: { type: 'string', value: 'NAME', help: 'The workspace (default: the key’s own)' },
      project: { type: 'string', value: 'NAME', help: 'The project' },
      what: { type: 'string', value: 'LIST', help: 'Of runs,metrics,system-metrics,output (default: all)' },
      format: { type: 'string', value: 'NAME', help: 'parquet (default), arrow, csv or jsonl' },
      out: { type: 'string', value: 'FOLDER', help: 'Where the files and their manifest.json go' },
      archive: { type: 'string', value: 'FILE', help: 'Instead: the whole project, with its assets, as one file' },
      'rows-of-part': { type: 'string', value: 'N', help: 'About how many rows a file has (default: 2000000)' },
      json: { type: 'boolean', help: 'Print the manifest as JSON' },
    },
    run: async (options) =>
      options.archive === undefined
        ? (await import('./export/export.ts')).exportProject(options)
        : (await import('./archive/export.ts')).exportArchive(options),
  },
  import: {
    summary: 'Import a project from the file that "svc export --archive" wrote: all of it or nothing',
    words: 'FILE',
    options: {
      url: { type: 'string', value: 'URL', help: 'The service (default: http://127.0.0.1:8080)' },
      key: { type: 'string', value: 'KEY', help: 'The API key of an admin (default: $SVC_API_KEY)' },
      workspace: { type: 'string', value: 'NAME', help: 'The workspace (default: the key’s own)' },
      project: { type: 'string', value: 'NAME', help: 'Another name for the project' },
      json: { type: 'boolean', help: 'Print the result as JSON' },
    },
    run: async (options, words) => (await import('./archive/import.ts')).importArchive(words, options),
  },
  demo: {
    summary: 'Train a small model, log it, read it back and compare; "production": run it for 90 days that drift',
    words: '[production]',
    options: {
      url: { type: 'string', value: 'URL', help: 'The service (default: http://127.0.0.1:8080)' },
      key: { type: 'string', value: 'KEY', help: 'The API key (default: $SVC_API_KEY)' },
      workspace: { type: 'string', value: 'NAME', help: 'The workspace (default: the key’s own)' },
      project: { type: 'string', value: 'NAME', help: 'The project (default: demo)' },
      epochs: { type: 'string', value: 'N', help: 'How long to train (default: 30)' },
      seed: { type: 'string', value: 'N', help: 'Seed of the random numbers (default: 7)' },
      json: { type: 'boolean', help: 'Print the report as JSON' },
    },
    run: async (options, words) => (await import('./demo/command.ts')).demo(options, words),
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
  if (!command) return usageError(`svc: there is no command "${name}"; "svc help" lists all.`)

  const options = Object.fromEntries(Object.entries(command.options ?? {}).map(([key, { type }]) => [key, { type }]))
  let parsed: ReturnType<typeof parseArgs>
  try {
    const known = { ...options, help: { type: 'boolean', short: 'h' } } as const
    parsed = parseArgs({ args: rest, options: known, allowPositionals: command.words !== undefined })
  } catch (error) {
    const reason = (error as Error).message.split('. ')[0]
    return usageError(`svc ${name}: ${reason}; "svc ${name} --help" lists the options.`)
  }
  if (parsed.values.help) return printCommandHelp(name, command)
  const { loadEnvFile } = await import('./settings.ts')
  loadEnvFile()
  await command.run(parsed.values as Record<string, string | boolean | undefined>, parsed.positionals)
  // A process that is killed later would not write the cache.
  flushCompileCache()
}

/**
 * V8 collects all of a small heap again once it has grown by some ten megabytes: beside 16 requests a second of 1,000 points each
 * 1.5 s. Each time takes both cores of a small machine for a tenth of a second, and calls wait. It may grow by so many percent
 * instead. Under full load V8 lets it grow by 300 anyway, so ingest and workers have no higher peak, and the api has none with
 * 100 (measured).
 */
function collectHeapSeldom({ growsBy }: { growsBy: number }) {
  setFlagsFromString(`--heap-growing-percent=${growsBy}`)
}

/**
 * V8 lets new objects have tens of megabytes before it looks which of them are dead. Those of the api are mostly chunks of
 * streamed answers, whose bytes lie outside of the heap and wait with them. With exports of 500 MiB the peak is 225 to 248
 * instead of 302 MiB, at the same CPU (measured).
 */
function keepYoungGenerationSmall() {
  setFlagsFromString('--semi-space-growth-factor=1')
}

const toText = (value: string | boolean | undefined) => (value === undefined ? undefined : String(value))

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
      '"svc <command> --help" lists the options of a command.\n',
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
  return `${error.message.split(' imported from ')[0]}. Run "npm install" in ${root}.`
}

// A closed terminal or pipe ("| head") must not stop the command halfway.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)

// Compiled sources are cached: the next start takes half as long. Not in the folder for temporary files, where another user
// could replace them. If the folder cannot be written, there is no cache.
const root = path.dirname(import.meta.dirname)
// The variable is for the processes that this one starts: with it, they need no compiler for their first file.
process.env.NODE_COMPILE_CACHE ??= path.join(root, 'node_modules', '.cache', 'svc')
enableCompileCache(process.env.NODE_COMPILE_CACHE)

try {
  await main(process.argv.slice(2))
} catch (error) {
  process.stderr.write(`svc: ${explain(error)}\n`)
  if (process.env.SVC_LOG_LEVEL === 'debug') console.error(error)
  // Things that a failed start left open must not keep the process alive.
  process.exit(1)
}
