import { version } from '../version.ts'
import { type Check, ok, warning, wrong } from './finding.ts'

const answerMsMax = 5_000

/** A process that runs: is it ready, and which roles does it have? */
export function serviceCheck(url: string): Check {
  const name = `service at ${url}`
  return {
    name,
    async look() {
      const answer = await ask(`${url}/readyz`).catch(() => {
        throw new Error('does not answer: start it with "npm start", or name its port with SVC_PORT, or SVC_URL')
      })
      const { checks } = (await answer.json().catch(() => ({}))) as { checks?: Record<string, string> }
      if (!checks) throw new Error('something else than svc answers there')
      const faults = Object.entries(checks).filter(([, outcome]) => outcome !== 'ok')
      if (faults.length > 0) return [wrong(name, faults.map((it) => it.join(': ')).join('; '))]
      const roles = await findRoles(url)
      const other = roles.find((it) => it.version !== version)
      if (other) {
        return [warning(name, `runs version ${other.version}, and this is ${version}: see docs/upgrading.md`)]
      }
      return [ok(name, roles.length > 0 ? `ready; ${roles.map((it) => it.role).join(', ')}` : 'ready')]
    },
  }
}

/** None where a proxy keeps `/metrics` to the inside. */
async function findRoles(url: string): Promise<{ role: string; version: string }[]> {
  const answer = await ask(`${url}/metrics`).catch(() => undefined)
  if (!answer?.ok) return []
  const found = (await answer.text()).matchAll(/^svc_role_info\{role="([^"]*)",version="([^"]*)"\} 1$/gm)
  return [...found].map(([, role = '', itsVersion = '']) => ({ role, version: itsVersion }))
}

const ask = (url: string) => fetch(url, { signal: AbortSignal.timeout(answerMsMax) })
