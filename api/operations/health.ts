import { z } from 'zod'
import { type Route, route } from '../../http/route.ts'
import { type Check, type Finding, runChecks } from '../../store/checks/finding.ts'

type Deps = { checks: Check[]; version: string }

/** The health of the stores, as `svc doctor` tells it. */
export function createHealthRoutes({ checks, version }: Deps): Route[] {
  let running: Promise<Finding[]> | undefined
  /** Callers who ask while the checks run get their findings: many at once load the stores no more than one. */
  function examine(): Promise<Finding[]> {
    running ??= runChecks(checks).finally(() => {
      running = undefined
    })
    return running
  }

  return [
    route({
      method: 'GET',
      path: '/admin/health',
      permission: 'operator',
      topic: 'Operations',
      summary:
        'Checks the stores as `svc doctor` does, from this process: versions, disks, queue, lag, dead letters, clocks and the ' +
        'master key. A store that does not answer is a finding, after 15 seconds at most.',
      answer: z.object({
        version: z.string().describe('of svc'),
        node: z.string(),
        ok: z.boolean().describe('false when a finding is wrong'),
        findings: z.array(
          z.object({
            name: z.string(),
            state: z.enum(['ok', 'warning', 'wrong']),
            says: z.string().describe('of a warning or what is wrong, with what to do'),
          }),
        ),
      }),
      shape: 'plain',
      async handle() {
        const findings = await examine()
        return {
          version,
          node: process.version,
          ok: findings.every((it) => it.state !== 'wrong'),
          findings: findings.map(({ name, state, message }) => ({ name, state, says: message })),
        }
      },
    }),
  ]
}
