import { setTimeout as sleep } from 'node:timers/promises'

type Client = {
  /** The answer of a GET below /api/rest/v2, once it is a success; `read` reads its body. */
  get<T>(path: string, query: Record<string, string>, read: (answer: Response) => Promise<T>): Promise<T>
}

const busyStatuses = new Set([429, 502, 503, 504])
const triesMax = 8
const pauseMsMax = 30_000

/**
 * Repeats a request while the service is busy or away, and when its answer is cut off: the body is then read from the start.
 * Gives up after eight failures in a row.
 */
export function createExportClient(url: string, apiKey: string): Client {
  if (!URL.canParse(url)) throw new Error(`"${url}" is not a URL. Use one such as --url http://localhost:8080`)
  const base = new URL('api/rest/v2/', url.endsWith('/') ? url : `${url}/`)

  return {
    async get(path, query, read) {
      const target = new URL(path, base)
      for (const [name, value] of Object.entries(query)) target.searchParams.set(name, value)
      for (let failures = 1; ; failures++) {
        const pauseMs = Math.min(250 * 2 ** failures, pauseMsMax)
        try {
          const answer = await fetch(target, { headers: { authorization: apiKey } })
          if (answer.ok) return await read(answer)
          const refusal = new Refused(await describe(answer))
          if (!busyStatuses.has(answer.status) || failures >= triesMax) throw refusal
          const seconds = Number(answer.headers.get('retry-after'))
          await sleep(seconds > 0 ? seconds * 1_000 : pauseMs)
        } catch (error) {
          if (!isOfNetwork(error)) throw error
          if (failures >= triesMax) throw new Error(`${url} does not answer (${reasonOf(error)}).`, { cause: error })
          await sleep(pauseMs)
        }
      }
    },
  }
}

class Refused extends Error {}

/** `fetch` has no other name for an unreachable service or a broken answer. */
const isOfNetwork = (error: unknown): error is TypeError => error instanceof TypeError

const reasonOf = ({ cause, message }: Error) => (cause instanceof Error && cause.message ? cause.message : message)

async function describe(answer: Response): Promise<string> {
  const text = await answer.text()
  try {
    return `HTTP ${answer.status}: ${(JSON.parse(text) as { msg: string }).msg}`
  } catch {
    return `HTTP ${answer.status}: ${text.slice(0, 200)}`
  }
}
