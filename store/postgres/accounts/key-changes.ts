import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

type Settings = {
  url: string
  /** Called once each time the connection is lost. */
  onError(error: unknown): void
}

const channel = 'svc_keys'
const probeEveryMs = 250
const retryMs = 250
const connectMsMax = 2_000
/** A connection without an answer for this long counts as lost. A revoked key works no longer than this. */
const trustedForMs = 1_000

/**
 * Listens for notifications of Postgres that a key, or its user, has changed. A connection that hangs looks like a quiet one, so
 * it is probed all the time, and opened again when it is lost. While there is none, `coversSince` is false, and caches of keys
 * must look them up again.
 */
export function openKeyChanges({ url, onError }: Settings) {
  const listeners: ((keyHash: string) => void)[] = []
  const closing = new AbortController()
  let listeningSinceMs: number | undefined
  let confirmedAtMs = 0

  /** Listens until the connection is lost, or `close` is called. */
  async function listen() {
    const client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: connectMsMax,
      query_timeout: trustedForMs,
      application_name: 'svc key changes',
    })
    // The next query fails and ends this function; until then nothing is covered.
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
      // Changes before this moment may have been missed.
      listeningSinceMs = performance.now()
      for (;;) {
        const probedAtMs = performance.now()
        await client.query('SELECT 1')
        confirmedAtMs = probedAtMs
        await sleep(probeEveryMs, undefined, { signal: closing.signal })
      }
    } finally {
      lose()
      // Not awaited: a connection that hangs never ends.
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

    /** True when every change since then (ms of `performance.now`) was reported, except those of the last second. */
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
