import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import { type Closers, createClosers } from '../runtime/closers.ts'
import type { AppendFsync } from './contenders/stores.ts'

/** What the commands of the bench have in common: their options, an end by signal that leaves nothing running, and what they say. */
type Values = { rounds: number; seconds: number; fsync: AppendFsync; json: boolean }

/** Reads `--rounds`, `--seconds`, `--fsync`, `--json`; undefined when only the usage was asked for, which is then printed. */
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

/** @throws Error that says which option is wrong */
export function readNumbers(values: { rounds: string; seconds: string; fsync: string }): Omit<Values, 'json'> {
  const { fsync } = values
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)]
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds must be a whole number from 1.')
  if (!(seconds > 0 && seconds <= 120)) throw new Error('--seconds must be a number up to 120.')
  if (fsync !== 'always' && fsync !== 'everysec') throw new Error('--fsync must be always or everysec.')
  return { rounds, seconds, fsync }
}

const settleMsMax = 10_000

/** Runs a command, and closes all that it opened when it is done, when it fails and when it is interrupted. */
export async function runCommand(main: (closers: Closers) => Promise<void>): Promise<void> {
  const closers = createClosers()
  const running = main(closers)
  const settled = running.then(
    () => undefined,
    () => undefined,
  )
  /** Set once a signal has come: what then fails does so because its stores are being stopped. */
  let stopping: Promise<void> | undefined
  const stop = async () => {
    await closers.closeAll()
    // What was just being opened is closed, too.
    await Promise.race([settled, sleep(settleMsMax)])
    await closers.closeAll()
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      stopping ??= stop().finally(() => process.exit(130))
    })
  }
  try {
    await running.finally(() => stopping ?? closers.closeAll())
  } catch (error) {
    await stopping
    process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exit(1)
  }
}

export function say(text: string) {
  process.stderr.write(`${describeTerminal(process.stderr, process.env).paint('dim', text)}\n`)
}
