import { describeError } from '../../runtime/describe-error.ts'
import { withTimeout } from '../../runtime/timeout.ts'

/** The result of a check. The message of a warning or an error says what to do. */
export type Finding = { name: string; state: 'ok' | 'warning' | 'wrong'; message: string }

/** A check with one or several findings. An exception becomes a finding with the state `wrong`. */
export type Check = { name: string; run(): Promise<Finding[]> }

export const ok = (name: string, message = ''): Finding => ({ name, state: 'ok', message })
export const warning = (name: string, message: string): Finding => ({ name, state: 'warning', message })
export const wrong = (name: string, message: string): Finding => ({ name, state: 'wrong', message })

const checkMsMax = 15_000

/** Runs all checks at once. The findings are in the order of the checks. */
export async function runChecks(checks: Check[]): Promise<Finding[]> {
  return (await Promise.all(checks.map(runCheck))).flat()
}

async function runCheck({ name, run }: Check): Promise<Finding[]> {
  try {
    return await withTimeout(run(), checkMsMax, () => new Error(`no answer within ${checkMsMax / 1_000} s`))
  } catch (error) {
    return [wrong(name, describeError(error))]
  }
}

/** The given problems, or one ok finding if there are none. */
export function orOk(name: string, problems: (Finding | false | undefined)[], okMessage: string): Finding[] {
  const found = problems.filter((it) => it !== false && it !== undefined)
  return found.length > 0 ? found : [ok(name, okMessage)]
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
