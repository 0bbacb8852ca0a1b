import type { Platform } from '../platform.ts'
import { endAtPagehide } from './pagehide.ts'

/** Nothing of a page is an address or a key: both are given. */
export type Given<Options> = Omit<Options, 'url' | 'apiKey'> & { url: string; apiKey: string }

/** Bytes, or a file that somebody has chosen. */
export type PageAsset = Uint8Array | Blob

export const platform: Platform<PageAsset> = {
  environment: {},
  defaultUrl: undefined,
  // What is sent when a page is hidden may overtake what creates its experiment.
  headers: { prefer: 'wait=5' },
  gzip: typeof CompressionStream === 'undefined' ? undefined : gzip,
  hintUnreachable,
  onOpen: (ending) => endAtPagehide(ending, platform),
  toAsset: (asset) =>
    asset instanceof Blob
      ? { name: asset instanceof File ? asset.name : undefined, file: asset, bytes: asset.size }
      : { name: undefined, file: new Uint8Array(asset), bytes: asset.length },
  openFile: (path) => Promise.reject(new Error(`a page cannot open ${path}`)),
}

async function gzip(text: string): Promise<Uint8Array> {
  const compressed = new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'))
  return new Uint8Array(await new Response(compressed).arrayBuffer())
}

/** Browsers do not tell a page whether the service is away or does not allow its origin. */
function hintUnreachable(url: string): string {
  const { origin } = location
  if (new URL(url).origin === origin) return ''
  // Pages that were opened as files have no origin to name.
  const allowed = origin === 'null' ? '*' : origin
  return `. If it runs, its setting SVC_CORS_ORIGINS does not allow this page: start it with SVC_CORS_ORIGINS=${allowed}`
}
