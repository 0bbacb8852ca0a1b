import { describeError } from '../../http/health.ts'
import { withTimeout } from '../../runtime/timeout.ts'

/** What was found of one thing that was looked at. What is not ok says what to do. */
export type Finding = { name: string; state: 'ok' | 'warning' | 'wrong'; says: string }

/** Looks at something, and tells one thing or several of it. What it throws is a finding as well: the name is wrong. */
export type Check = { name: string; look(): Promise<Finding[]> }

export const ok = (name: string, says = ''): Finding => ({ name, state: 'ok', says })
export const warning = (name: string, says: string): Finding => ({ name, state: 'warning', says })
export const wrong = (name: string, says: string): Finding => ({ name, state: 'wrong', says })

const lookMsMax = 15_000

/** Looks at everything side by side; the findings are in the order of the checks. */
export async function findAll(checks: Check[]): Promise<Finding[]> {
  return (await Promise.all(checks.map(find))).flat()
}

async function find({ name, look }: Check): Promise<Finding[]> {
  try {
    return await withTimeout(look(), lookMsMax, () => new Error(`no answer within ${lookMsMax / 1_000} s`))
  } catch (error) {
    return [wrong(name, describeError(error))]
  }
}

/** The findings of everything that is not as it should be, or else that it is. */
export function orOk(name: string, faults: (Finding | false | undefined)[], says: string): Finding[] {
  const found = faults.filter((it) => it !== false && it !== undefined)
  return found.length > 0 ? found : [ok(name, says)]
}

export const percent = (share: number) => `${Math.round(share * 100)}%`

const units = ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB']

export function bytes(count: number): string {
  let unit = 0
  let left = count
  while (left >= 1_000 && unit < units.length - 1) {
    left /= 1_000
    unit++
  }
  return `${left < 10 && unit > 0 ? left.toFixed(1) : Math.round(left)} ${units[unit]}`
}

export function duration(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return `${Math.round(seconds / 3_600)} h`
}
