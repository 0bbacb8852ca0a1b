import { baseUrl, isEmbedded, shareCode } from './http.ts'

/**
 * Tells pages which runs have something newer. A stream of events (`POST /experiments/stream`) tells it; one tab holds it for
 * all tabs of the browser, because a browser opens few connections to an address: Web Locks choose the tab, and the next one
 * when it is closed. Where there are none (http, other than on this machine) each tab that is looked at has its own.
 */

type Listener = { keys: string[]; onNewer(keys: Set<string>): void }

/** What tabs say to each other. */
type Message =
  | { kind: 'want'; tab: string; keys: string[] }
  | { kind: 'who' }
  | { kind: 'newer'; keys: string[] }
  | { kind: 'open'; isOpen: boolean }

const keysMax = 1_000
const changeMs = 200
const retryMs = { least: 1_000, most: 30_000 }
/** A tab says what it wants as often; one that is in the background may be late by a minute. */
const sayEveryMs = 20_000
const goneAfterMs = 150_000
/** What came before the stream was open is looked for when a page has been drawn: it has been read a moment ago. */
const lookBackMs = 2_500

const tab = Math.random().toString(36).slice(2)
const group = `svc live ${baseUrl.pathname} ${isEmbedded} ${shareCode() ?? ''}`
const locks = isSecureContext ? navigator.locks : undefined
const channel = locks ? new BroadcastChannel(group) : undefined

const listeners = new Set<Listener>()
const watchers = new Set<() => void>()
let isOpen = false
let hasBegun = false
let lead: ReturnType<typeof createLead> | undefined

/**
 * Tells when runs have something newer, until the answer is called.
 *
 * @param onNewer the runs, of those that were asked for
 */
export function watchRuns(keys: string[], onNewer: (keys: Set<string>) => void): () => void {
  begin()
  const listener = { keys, onNewer }
  listeners.add(listener)
  sayWanted()
  return () => {
    listeners.delete(listener)
    sayWanted()
  }
}

/** Whether the stream is open; without it pages ask more often. */
export const isLive = () => isOpen
export function onLive(watcher: () => void): () => void {
  watchers.add(watcher)
  return () => watchers.delete(watcher)
}

function begin() {
  if (hasBegun) return
  hasBegun = true
  document.addEventListener('visibilitychange', sayWanted)
  if (!locks || !channel) {
    lead = createLead()
    return
  }
  channel.addEventListener('message', ({ data }: MessageEvent<Message>) => hear(data))
  addEventListener('pagehide', () => channel.postMessage({ kind: 'want', tab, keys: [] } satisfies Message))
  setInterval(sayWanted, sayEveryMs)
  const hold = () => {
    lead = createLead()
    say({ kind: 'who' })
    sayWanted()
    // Until the tab is closed.
    return new Promise<never>(() => undefined)
  }
  locks.request(group, hold).catch(() => undefined)
}

function say(message: Message) {
  channel?.postMessage(message)
}

let saying: ReturnType<typeof setTimeout> | undefined

/** What this tab wants: nothing while nobody looks at it. */
function sayWanted() {
  clearTimeout(saying)
  saying = setTimeout(() => {
    const keys = document.hidden ? [] : [...new Set([...listeners].flatMap((it) => it.keys))]
    if (lead) lead.want(tab, keys)
    else say({ kind: 'want', tab, keys })
  }, changeMs)
}

function hear(message: Message) {
  if (message.kind === 'want') lead?.want(message.tab, message.keys)
  else if (message.kind === 'who') sayWanted()
  else if (message.kind === 'newer') tell(message.keys)
  else setOpen(message.isOpen)
}

function tell(keys: string[]) {
  for (const { keys: wanted, onNewer } of listeners) {
    const newer = new Set(keys.filter((it) => wanted.includes(it)))
    if (newer.size > 0) onNewer(newer)
  }
}

function setOpen(next: boolean) {
  if (isOpen === next) return
  isOpen = next
  for (const it of watchers) it()
}

/** Holds the stream for all tabs. */
function createLead() {
  const wanted = new Map<string, { keys: string[]; atMs: number }>()
  let reading = { keys: '', abort: new AbortController() }

  function want(from: string, keys: string[]) {
    wanted.set(from, { keys, atMs: Date.now() })
    for (const [name, { atMs }] of wanted) if (Date.now() - atMs > goneAfterMs) wanted.delete(name)
    const all = [...new Set([...wanted.values()].flatMap((it) => it.keys))].sort().slice(0, keysMax)
    if (all.join() === reading.keys) {
      if (isOpen) say({ kind: 'open', isOpen })
      return
    }
    reading.abort.abort()
    reading = { keys: all.join(), abort: new AbortController() }
    if (all.length > 0) void follow(all, reading.abort.signal)
    else tellOpen(false)
  }

  async function follow(keys: string[], signal: AbortSignal) {
    let lookBack = lookBackMs
    for (let waitMs = retryMs.least; !signal.aborted; waitMs = Math.min(waitMs * 2, retryMs.most)) {
      const openedAt = performance.now()
      await read(keys, signal, lookBack).catch(() => undefined)
      lookBack = 0
      if (signal.aborted) return
      tellOpen(false)
      // One that lasted did not fail: a proxy or the service has ended it.
      if (performance.now() - openedAt > retryMs.most) waitMs = retryMs.least
      await new Promise((done) => setTimeout(done, waitMs))
    }
  }

  async function read(keys: string[], signal: AbortSignal, lookBack: number) {
    const url = new URL('api/rest/v2/experiments/stream', baseUrl)
    const code = shareCode()
    if (code !== undefined) url.searchParams.set('shareCode', code)
    const answer = await fetch(url, {
      method: 'POST',
      signal,
      headers: { 'content-type': 'application/json', 'x-svc-page': '1' },
      body: JSON.stringify({ experimentKeys: keys }),
    })
    if (!answer.ok || !answer.body) return
    tellOpen(true)
    // What came while no stream was open.
    setTimeout(() => !signal.aborted && pass(keys), lookBack)
    const words = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    for (let text = ''; ; ) {
      const { done, value } = await words.read()
      if (done) return
      const blocks = (text + value).split('\n\n')
      text = blocks.pop() as string
      const newer = blocks.flatMap(toKeys)
      if (newer.length > 0) pass(newer)
    }
  }

  function pass(keys: string[]) {
    tell(keys)
    say({ kind: 'newer', keys })
  }

  function tellOpen(next: boolean) {
    setOpen(next)
    say({ kind: 'open', isOpen: next })
  }

  return { want }
}

type Told = {
  experimentKey?: string
  experimentKeys?: string[]
  metrics?: { experimentKey: string }[]
  output?: { experimentKey: string }[]
}

/** The runs that an event is about. */
function toKeys(block: string): string[] {
  const data = /^data: (.*)$/m.exec(block)?.[1]
  if (data === undefined) return []
  const { experimentKey, experimentKeys = [], metrics = [], output = [] } = JSON.parse(data) as Told
  const keys = [...experimentKeys, ...metrics.map((it) => it.experimentKey), ...output.map((it) => it.experimentKey)]
  return [...new Set(experimentKey === undefined ? keys : [...keys, experimentKey])]
}
