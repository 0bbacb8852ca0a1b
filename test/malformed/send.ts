import type { Answer } from '../kit/http/answers.ts'
import { createSharedConnection, sendAlone } from './connection.ts'
import { findError } from './judge.ts'
import { createRequests, type Ingredients, type Malformed } from './kinds.ts'

/** Requests `first`, `first + every`, ... below `end` whose kind contains `kind`. */
export type Share = { first: number; end: number; every: number; kind: string }

/** A request with a wrong answer, readable and repeatable. */
export type WrongAnswer = { number: number; kind: string; what: string; request: string; answer: string }

/** Answers by kind and status; `none` without an answer. */
export type Statuses = Record<string, Record<string, number>>

export type SendReport = { sent: number; statuses: Statuses; errors: WrongAnswer[]; errorCount: number }

/** Many, because most of a request's time is waiting for the queue's disk. */
const connections = 96
const requestsAtOnce = 8
const errorsKept = 20
const shownCharactersMax = 600

type Settings = { url: string; ingredients: Ingredients; share: Share; onSent(count: number): void }

/** Sends a share of the malformed requests over many connections and checks every answer. */
export async function sendMalformed({ url, ingredients, share, onSent }: Settings): Promise<SendReport> {
  const makeRequest = createRequests(ingredients)
  const report: SendReport = { sent: 0, statuses: {}, errors: [], errorCount: 0 }
  let next = share.first

  type Numbered = Malformed & { number: number }

  function take(): Numbered | undefined {
    while (next < share.end) {
      const number = next
      next += share.every
      const request = makeRequest(number)
      if (request.kind.includes(share.kind)) return { number, ...request }
    }
    return undefined
  }

  function count({ kind }: Numbered, status: number | 'none') {
    const ofKind = report.statuses[kind] ?? {}
    report.statuses[kind] = ofKind
    ofKind[status] = (ofKind[status] ?? 0) + 1
    report.sent++
    onSent(1)
  }

  function note({ number, kind, bytes }: Numbered, what: string, answer = '') {
    report.errorCount++
    if (report.errors.length >= errorsKept) return
    const show = (text: string) => JSON.stringify(text.slice(0, shownCharactersMax))
    const request = show(bytes.toString('latin1', 0, shownCharactersMax))
    report.errors.push({ number, kind, what, request, answer: show(answer) })
  }

  function judge(request: Numbered, answer: Answer) {
    const error = findError(answer, request.isHead)
    if (error) note(request, error, answer.head + answer.body)
  }

  async function runConnection() {
    const shared = createSharedConnection(url)
    for (let isOver = false; !isOver; ) {
      const group: Numbered[] = []
      while (group.length < requestsAtOnce && !isOver) {
        const request = take()
        if (!request) isOver = true
        else if (request.manner === 'shared') group.push(request)
        else await sendOneAlone(request)
      }
      await sendTogether(group)
    }
    shared.close()

    async function sendTogether(group: Numbered[]) {
      for (let left = group; left.length > 0; ) {
        const { answers, ending, rest } = await shared.exchange(left)
        answers.forEach((answer, at) => {
          judge(left[at] as Numbered, answer)
          count(left[at] as Numbered, answer.status)
        })
        const [unanswered] = left.slice(answers.length)
        if (unanswered && ending !== 'whole') note(unanswered, `an answer that is ${ending}`, rest)
        if (answers.length > 0) {
          // Requests behind an answer that closed the connection are sent again.
          left = left.slice(answers.length)
        } else if (left.length > 1) {
          await sendTogether(left.slice(0, 1))
          left = left.slice(1)
        } else {
          note(left[0] as Numbered, 'no answer')
          count(left[0] as Numbered, 'none')
          left = []
        }
      }
    }
  }

  async function sendOneAlone(request: Numbered) {
    const { answers, ending, rest, isOver } = await sendAlone(url, request)
    for (const answer of answers) judge(request, answer)
    if (ending === 'torn') note(request, 'bytes that are not HTTP', rest)
    if (!isOver) note(request, 'a connection that is never closed')
    count(request, answers.at(-1)?.status ?? 'none')
  }

  await Promise.all(Array.from({ length: connections }, runConnection))
  return report
}
