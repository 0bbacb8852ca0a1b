import { type Check, ok, warning, wrong } from '../../store/checks/finding.ts'
import { version } from '../version.ts'

const answerMsMax = 5_000

/** Checks that a running process is ready, and lists its roles. */
export function serviceCheck(url: string): Check {
  const name = `service at ${url}`
  return {
    name,
    async run() {
      const answer = await ask(`${url}/readyz`).catch(() => {
        throw new Error(
          'does not answer: start it with "npm start", or set its port in SVC_PORT or its address in SVC_URL',
        )
      })
      const { checks } = (await answer.json().catch(() => ({}))) as { checks?: Record<string, string> }
      if (!checks) throw new Error('another program answers there, not svc')
      const failed = Object.entries(checks).filter(([, outcome]) => outcome !== 'ok')
      if (failed.length > 0) return [wrong(name, failed.map((it) => it.join(': ')).join('; '))]
      const roles = await findRoles(url)
      const other = roles.find((it) => it.version !== version)
      if (other) {
        return [warning(name, `runs version ${other.version}, but this is ${version}: see docs/upgrading.md`)]
      }
      return [ok(name, roles.length > 0 ? `ready; ${roles.map((it) => it.role).join(', ')}` : 'ready')]
    },
  }
}

/** Empty if a proxy hides `/metrics`. */
async function findRoles(url: string): Promise<{ role: string; version: string }[]> {
  const answer = await ask(`${url}/metrics`).catch(() => undefined)
  if (!answer?.ok) return []
  const found = (await answer.text()).matchAll(/^svc_role_info\{role="([^"]*)",version="([^"]*)"\} 1$/gm)
  return [...found].map(([, role = '', itsVersion = '']) => ({ role, version: itsVersion }))
}

const ask = (url: string) => fetch(url, { signal: AbortSignal.timeout(answerMsMax) })
