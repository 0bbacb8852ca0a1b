import { runDemo } from './demo.ts'
import { DemoError } from './errors.ts'

type Options = Record<string, string | boolean | undefined>

/** Runs the demo against a running service; the exit code says whether everything was read back as it was logged. */
export async function demo(options: Options): Promise<void> {
  const text = (name: string) => (typeof options[name] === 'string' ? options[name] : undefined)
  const number = (name: string) => {
    const given = text(name)
    if (given === undefined) return undefined
    if (!/^\d+$/.test(given)) throw new DemoError(`--${name} must be a whole number, not "${given}".`)
    return Number(given)
  }
  const apiKey = text('key') ?? process.env.SVC_API_KEY ?? process.env.SVC_BOOTSTRAP_API_KEY
  if (!apiKey) throw new DemoError('give the API key that "svc up" printed: --key KEY, or SVC_API_KEY=KEY.')
  const stop = new AbortController()
  process.once('SIGINT', () => stop.abort())
  const report = await runDemo({
    url: text('url') ?? process.env.SVC_URL ?? `http://127.0.0.1:${process.env.SVC_PORT || 8080}`,
    apiKey,
    workspace: text('workspace'),
    project: text('project'),
    epochs: number('epochs'),
    seed: number('seed'),
    out: process.stdout,
    json: options.json === true,
    signal: stop.signal,
  })
  process.exitCode = report.ok ? 0 : 1
}
