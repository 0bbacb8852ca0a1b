import { perform, toEventsBody } from '../perform.ts'
import type { Ending, Platform } from '../platform.ts'
import type { Request } from '../request.ts'
import { createTransport } from '../transport.ts'
import { addLost, takeLost } from './lost.ts'

/**
 * What is open when the page closes. Nothing asynchronous happens any more then: each request that is left is begun at once, all
 * side by side, and the browser goes on with it without the page (`keepalive`). Browsers limit how much that may be, so pages
 * that are hidden send what they have; what does not fit in the end is counted, and told by the next page.
 */

/** Browsers take 64 KiB for all requests of a page. */
const bytesMax = 60_000
/** What is left is divided into parts of so many bytes in memory, a third of it in a request. As many go as fit. */
const partBytes = 40_000
/** The form of a file takes so much besides it. */
const formBytes = 1_000

const open = new Map<Ending, Platform>()
/** What this page could not send when it was hidden; it may come back. */
let leftBehind = 0

const onPagehide = ({ persisted }: PageTransitionEvent) => {
  let room = bytesMax
  for (const [ending, platform] of open) {
    const { connection, left } = ending.leave({ partBytes, mayReturn: persisted })
    const transport = createTransport(connection, new AbortController().signal, platform, true)
    let dropped = 0
    const inOrder = left.map((it) => ({ ...it, bytes: toBytes(it.request) })).sort(byImportance)
    for (const { request, entries, bytes } of inOrder) {
      if (bytes > room || !isWhole(request)) dropped += entries
      else {
        room -= bytes
        void perform({ transport, platform }, request, () => true).catch(() => undefined)
      }
    }
    leftBehind += dropped
    if (dropped > 0 && !persisted) ending.tell('the page closed before all was sent: the rest is lost', dropped)
  }
  if (leftBehind > 0) addLost(leftBehind)
  if (!persisted) open.clear()
}

/** What was left behind is still there. */
const onPageshow = () => {
  if (leftBehind > 0) addLost(-leftBehind)
  leftBehind = 0
}

/** A page that is hidden may be closed without a further event. */
const onHidden = () => {
  if (document.visibilityState === 'hidden') for (const it of open.keys()) void it.flush()
}

/** @returns forgets it, once it has ended */
export function endAtPagehide(ending: Ending, platform: Platform): () => void {
  addEventListener('pagehide', onPagehide)
  addEventListener('pageshow', onPageshow)
  // Workers have no document, and neither event.
  globalThis.document?.addEventListener('visibilitychange', onHidden)
  open.set(ending, platform)
  const lost = takeLost()
  if (lost > 0) ending.tell('an earlier page closed before all was sent: the rest is lost', lost)
  return () => {
    open.delete(ending)
  }
}

/**
 * What creates an experiment goes first: a browser has six connections, and what waits for the experiment would hold them all.
 * Then what is small, such as that it ended.
 */
function byImportance(a: Sized, b: Sized): number {
  return Number(b.request.kind === 'create') - Number(a.request.kind === 'create') || a.bytes - b.bytes
}

type Sized = { request: Request; bytes: number }

/** Without its workspace it could not be sent at once. */
const isWhole = (request: Request) =>
  (request.kind !== 'create' && request.kind !== 'events') || request.workspaceName !== undefined

function toBytes(request: Request): number {
  switch (request.kind) {
    case 'json':
      return toSize(request.body)
    case 'events':
      return toSize(toEventsBody(request, request.workspaceName))
    case 'create':
      return toSize(JSON.stringify(request))
    case 'upload': {
      const { file } = request
      return formBytes + (typeof file === 'string' ? 0 : file instanceof Blob ? file.size : file.length)
    }
  }
}

const toSize = (text: string) => new Blob([text]).size
