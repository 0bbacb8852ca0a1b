import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import type { Closers } from '../runtime/closers.ts'
import { readWholeNumber } from '../test/kit/command-line/options.ts'
import { runTool } from '../test/kit/command-line/run-tool.ts'
import type { AppendFsync } from '../test/kit/stores/redis.ts'

/** Options that several commands of the bench share. */
type Values = { rounds: number; seconds: number; fsync: AppendFsync; json: boolean }

/** Reads `--rounds`, `--seconds`, `--fsync` and `--json`. For `--help` it prints the usage and returns undefined. */
export function readCommand(usage: string, defaults: { rounds: number; seconds: number }): Values | undefined {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: String(defaults.rounds) },
      seconds: { type: 'string', default: String(defaults.seconds) },
      fsync: { type: 'string', default: 'always' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  return { ...readNumbers(values), json: values.json }
}

/** @throws Error that names the option */
export function readNumbers(values: { rounds: string; seconds: string; fsync: string }): Omit<Values, 'json'> {
  const { fsync } = values
  const rounds = readWholeNumber('rounds', values.rounds, 1)
  const seconds = Number(values.seconds)
  if (!(seconds > 0 && seconds <= 120)) throw new Error('--seconds must be a number up to 120.')
  if (fsync !== 'always' && fsync !== 'everysec') throw new Error('--fsync must be always or everysec.')
  return { rounds, seconds, fsync }
}

/** Runs a command of the bench; closes everything it opened when it is done, fails or is interrupted. */
export async function runCommand(main: (closers: Closers) => Promise<void>): Promise<void> {
  await runTool('bench', async ({ closers }) => {
    await main(closers)
    return 0
  })
}

export function say(text: string) {
  process.stderr.write(`${describeTerminal(process.stderr, process.env).paint('dim', text)}\n`)
}
