/**
 * The supervisor of Postgres, which itself does not notice the death of its parent. `node postgres-process.ts COMMAND` (as JSON)
 * runs it, and ends it when stdin closes: by a fast shutdown, then an immediate one (the next start recovers), then SIGKILL.
 * See engine.ts.
 */
import { spawn } from 'node:child_process'
import type { Command } from './postgres-user.ts'

const command = JSON.parse(process.argv[2] ?? '') as Command
const { uid, gid } = command

// A service manager may signal every process of the service. The child must run until the parent has drained.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})

const ids = uid === undefined ? {} : { uid, gid }
const postgres = spawn(command.file, command.args, { ...ids, stdio: ['ignore', 'ignore', 'inherit'] })
postgres.once('spawn', () => process.stdout.write(`${postgres.pid}\n`))
postgres.once('error', (error) => {
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
})
postgres.once('exit', (code, signal) => {
  if (signal) process.stderr.write(`postgres was ended by ${signal}\n`)
  process.exit(code ?? 1)
})

// The parent may be dead, and its ends of our pipes closed.
process.stdout.on('error', () => {})
process.stderr.on('error', () => {})
process.stdin.resume()
process.stdin.once('close', () => {
  postgres.kill('SIGINT')
  setTimeout(() => postgres.kill('SIGQUIT'), 20_000).unref()
  setTimeout(() => postgres.kill('SIGKILL'), 25_000).unref()
})
