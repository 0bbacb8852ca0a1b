import { createServer, type Server } from 'node:http'
import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { describeError } from '../runtime/describe-error.ts'
import { withTimeout } from '../runtime/timeout.ts'
import { HttpError } from './errors.ts'

/** The health checks and metrics of a process. */
export type Health = {
  /** Each check resolves when its part works, or rejects with the reason. */
  checks: Record<string, () => Promise<unknown>>
  /** Checks that are reported, but do not make the process unready when they fail. */
  canBeAway?: ReadonlySet<string>
  metricsRegistry: Registry
  /** True when another port serves `/metrics`. */
  hasMetricsElsewhere?: boolean
  /** True after SIGTERM: `/readyz` then answers 503, so that load balancers send nothing new. */
  isDraining(): boolean
}

const checkWaitMs = 2_000

/** Runs all checks in parallel; the outcome of each is `ok` or the reason of the failure. */
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

/**
 * The version of the interface, not of svc. Clients switch their behaviour by it, so it names a version only when every route
 * that clients call at that version is there.
 */
const interfaceVersion = '4.35.0'

/** The version of MLflow whose calls of runs, models and artifacts are here. Clients send traces to newer ones only. */
const mlflowVersion = '3.0.0'

/** Adds `/livez`, `/readyz`, `/metrics` and what clients ask of the version; none of them needs a key. */
export function addHealthRoutes(app: FastifyInstance, health: Health) {
  const schema = { hide: true }
  app.get('/livez', { schema }, async () => ({ status: 'ok' }))
  app.get('/readyz', { schema }, async (_request, reply) => {
    const checks = health.isDraining() ? { process: 'is draining' } : await runChecks(health.checks)
    const ready = Object.entries(checks).every(([name, outcome]) => outcome === 'ok' || health.canBeAway?.has(name))
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ok' : 'not ready', checks })
  })
  if (!health.hasMetricsElsewhere) {
    app.get('/metrics', { schema }, async (request, reply) => {
      // A proxy that closes `/metrics` may let `/metrics/` or `/%6detrics` through, which the router reads as the same.
      if (request.raw.url?.split('?')[0] !== '/metrics') throw new HttpError('routeUnknown', 'There is /metrics only.')
      return reply.type(health.metricsRegistry.contentType).send(await health.metricsRegistry.metrics())
    })
  }
  app.get('/health', { schema }, async (_request, reply) => reply.type('text/plain').send('OK'))
  app.get('/version', { schema }, async (_request, reply) => reply.type('text/plain').send(mlflowVersion))
  app.get('/clientlib/isAlive/ver', { schema }, async () => ({ version: interfaceVersion }))
}

type MetricsAddress = { host: string; port: number; metricsRegistry: Registry }

/**
 * Serves `/metrics`, and nothing else, on a port of its own: what stands before the other port cannot show it to the world.
 *
 * @throws the error of `listen`, such as EADDRINUSE
 */
export async function openMetricsServer({ host, port, metricsRegistry }: MetricsAddress): Promise<Server> {
  const server = createServer((request, answer) => {
    if (request.url?.split('?')[0] !== '/metrics') return void answer.writeHead(404).end()
    metricsRegistry.metrics().then(
      (text) => answer.writeHead(200, { 'content-type': metricsRegistry.contentType }).end(text),
      () => answer.writeHead(500).end(),
    )
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, resolve)
  })
  return server
}
