import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

type Settings = {
  url: string
  /** Called once each time the connection is lost, with why. */
  onError(error: unknown): void
}

const channel = 'svc_keys'
const askEveryMs = 250
const retryMs = 250
const connectMsMax = 2_000
/** What is not confirmed for this long counts as lost: a revoked key may not work for longer. */
const trustedForMs = 1_000

/**
 * Listens to Postgres telling that keys, or the users they belong to, have changed. The connection is asked for a sign of
 * life all the time, since one that hangs looks like one on which nothing happens; when it is lost, it is made again.
 * While there is none, `coversSince` says so, and whoever remembers keys has to ask for them again.
 */
export function openKeyChanges({ url, onError }: Settings) {
  const listeners: ((keyHash: string) => void)[] = []
  const closing = new AbortController()
  let listeningSinceMs: number | undefined
  let confirmedAtMs = 0

  /** Listens until the connection is lost, or this is closed. */
  async function listen() {
    const client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: connectMsMax,
      query_timeout: trustedForMs,
      application_name: 'svc key changes',
    })
    // The next question fails then, and with it this function; but from now on nothing is covered.
    const lose = () => {
      listeningSinceMs = undefined
    }
    client.on('error', lose)
    client.on('end', lose)
    client.on('notification', ({ payload }) => {
      for (const tell of listeners) tell(payload ?? '')
    })
    try {
      await client.connect()
      await client.query(`LISTEN ${channel}`)
      // Only what is asked from now on is covered.
      listeningSinceMs = performance.now()
      for (;;) {
        const askedAtMs = performance.now()
        await client.query('SELECT 1')
        confirmedAtMs = askedAtMs
        await sleep(askEveryMs, undefined, { signal: closing.signal })
      }
    } finally {
      lose()
      // Not in order: a connection that hangs would not answer.
      void client.end().catch(() => undefined)
      setTimeout(() => destroy(client), trustedForMs).unref()
    }
  }

  async function keepListening() {
    let isLost = false
    while (!closing.signal.aborted) {
      const since = performance.now()
      try {
        await listen()
      } catch (error) {
        if (closing.signal.aborted) return
        if (confirmedAtMs > since) isLost = false
        if (!isLost) onError(error)
        isLost = true
      }
      await sleep(retryMs, undefined, { signal: closing.signal }).catch(() => undefined)
    }
  }
  const done = keepListening()

  return {
    /** Calls back with the hash (hex) of every key that is new, revoked or changed, or whose user is. */
    onChange(tell: (keyHash: string) => void) {
      listeners.push(tell)
    },

    /** True while every change since then (ms of `performance.now`) was told, but for those of the last second. */
    coversSince(timeMs: number): boolean {
      if (listeningSinceMs === undefined || listeningSinceMs > timeMs) return false
      return performance.now() - confirmedAtMs < trustedForMs
    },

    async close() {
      closing.abort()
      await done
    },
  }
}

/** Its socket is not part of the types. */
function destroy(client: pg.Client) {
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
}
