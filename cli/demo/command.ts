import { runDemo } from './demo.ts'
import { DemoError } from './errors.ts'
import { runProduction } from './production/production.ts'

type Options = Record<string, string | boolean | undefined>

/** Runs a demo against a running service; the exit code is 0 only if everything was stored, and read back as logged. */
export async function demo(options: Options, [which, ...more]: string[]): Promise<void> {
  if (which !== undefined && (which !== 'production' || more.length > 0)) {
    throw new DemoError(`there is no demo "${[which, ...more].join(' ')}": "svc demo" or "svc demo production".`)
  }
  const text = (name: string) => (typeof options[name] === 'string' ? options[name] : undefined)
  const number = (name: string) => {
    const given = text(name)
    if (given === undefined) return undefined
    if (!/^\d+$/.test(given)) throw new DemoError(`--${name} must be a whole number, not "${given}".`)
    return Number(given)
  }
  const apiKey = text('key') ?? process.env.SVC_API_KEY ?? process.env.SVC_BOOTSTRAP_API_KEY
  if (!apiKey)
    throw new DemoError(
      'the API key is missing: pass the one that "svc up" printed with --key KEY, or set SVC_API_KEY.',
    )
  const stop = new AbortController()
  process.once('SIGINT', () => stop.abort())
  const given = {
    url: text('url') ?? process.env.SVC_URL ?? `http://127.0.0.1:${process.env.SVC_PORT || 8080}`,
    apiKey,
    workspace: text('workspace'),
    project: text('project'),
    epochs: number('epochs'),
    seed: number('seed'),
    out: process.stdout,
    json: options.json === true,
    signal: stop.signal,
  }
  const report = which === undefined ? await runDemo(given) : await runProduction(given)
  process.exitCode = report.ok ? 0 : 1
}
