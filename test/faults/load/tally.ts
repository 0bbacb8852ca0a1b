import type { Answer } from './connection.ts'

/** A write may be accepted, rejected for now, or lose its connection. Any other answer is an error. */
const expectedStatuses = new Set([200, 429, 503])
const unexpectedShown = 10

/** Counts answers by status, and lost connections. */
export function createTally() {
  const statuses: Record<string, number> = {}
  const refusals: Record<string, number> = {}
  const unanswered: Record<string, number> = {}
  const unexpected = new Set<string>()
  let unexpectedCount = 0

  function complain(text: string) {
    unexpectedCount++
    if (unexpected.size < unexpectedShown) unexpected.add(text)
  }

  return {
    answered({ status, body }: Answer) {
      statuses[status] = (statuses[status] ?? 0) + 1
      if (status === 200) return
      if (!expectedStatuses.has(status)) return complain(`HTTP ${status}: ${body.slice(0, 300)}`)
      const reason = `${status} ${(JSON.parse(body) as { msg: string }).msg}`
      refusals[reason] = (refusals[reason] ?? 0) + 1
    },
    unanswered(error: Error & { code?: string }) {
      const reason = error.code ?? error.message
      unanswered[reason] = (unanswered[reason] ?? 0) + 1
    },
    complain,
    report: () => ({ statuses, refusals, unanswered, unexpected: [...unexpected], unexpectedCount }),
  }
}

export type Tally = ReturnType<typeof createTally>
