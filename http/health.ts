import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { withTimeout } from '../runtime/timeout.ts'

/** What a process says of itself: what it needs to work, and its figures. */
export type Health = {
  /** Each check resolves when the part can be used, and rejects with the reason when not. */
  checks: Record<string, () => Promise<unknown>>
  /** Those of the checks without which requests can be taken all the same: they are told, and change nothing. */
  canBeAway?: ReadonlySet<string>
  metricsRegistry: Registry
  /** True from SIGTERM on: a load balancer then sends nothing new here. */
  isDraining(): boolean
}

const checkWaitMs = 2_000

/** Runs all checks side by side; each is `ok` or the reason why not. */
async function runChecks(checks: Health['checks']): Promise<Record<string, string>> {
  const results = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => [name, await outcomeOf(check)] as const),
  )
  return Object.fromEntries(results)
}

async function outcomeOf(check: () => Promise<unknown>): Promise<string> {
  try {
    await withTimeout(check(), checkWaitMs, () => new Error(`no answer within ${checkWaitMs} ms`))
    return 'ok'
  } catch (error) {
    return describeError(error)
  }
}

/** A fault in one line. Where several addresses were tried, the message is empty and the reasons stand in a list. */
export function describeError(error: unknown): string {
  if (error instanceof AggregateError && !error.message) return error.errors.map(describeError).join('; ')
  return error instanceof Error && error.message ? error.message : String(error)
}

/** What clients of this interface compare with the oldest server they know (1.2.78); not the version of svc. */
const interfaceVersion = '2.0.0'

/** `/livez`, `/readyz`, `/metrics` and the version call of older clients; none of them asks for a key. */
export function addHealthRoutes(app: FastifyInstance, health: Health) {
  const schema = { hide: true }
  app.get('/livez', { schema }, async () => ({ status: 'ok' }))
  app.get('/readyz', { schema }, async (_request, reply) => {
    const checks = health.isDraining() ? { process: 'is draining' } : await runChecks(health.checks)
    const ready = Object.entries(checks).every(([name, outcome]) => outcome === 'ok' || health.canBeAway?.has(name))
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ok' : 'not ready', checks })
  })
  app.get('/metrics', { schema }, async (_request, reply) =>
    reply.type(health.metricsRegistry.contentType).send(await health.metricsRegistry.metrics()),
  )
  app.get('/clientlib/isAlive/ver', { schema }, async () => ({ version: interfaceVersion }))
}
