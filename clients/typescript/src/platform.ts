import type { Environment } from './environment.ts'
import type { AssetFile, Request } from './request.ts'
import type { Connection } from './settings.ts'

/** What Node and browsers do each in their way. */
export type Platform<Asset = never> = Environment & {
  /** Added to every request. */
  headers: Record<string, string>
  /** Undefined where nothing can compress. */
  gzip: ((text: string) => Promise<Uint8Array>) | undefined
  /** What to do about a service that does not answer, for a message. */
  hintUnreachable(url: string): string
  /** Called for each logger. @returns forgets it, once it has ended */
  onOpen(ending: Ending): () => void
  /** @throws Error when it cannot be read */
  toAsset(asset: Asset): { name: string | undefined; file: AssetFile; bytes: number }
  /** @param path of an asset that is given by its path */
  openFile(path: string): Promise<Blob>
}

/** What is open when the process, or the page, ends. */
export type Ending = {
  /** Begins to send what there is. */
  flush(): Promise<void>
  end(): Promise<void>
  /** Says, in the log and in `loggingErrors`, what went wrong. */
  tell(message: string, count: number): void
  /** Closes it, and answers what was not sent. `failure` says why the process failed. */
  leave(how?: Leaving): Rest
}

export type Leaving = {
  failure?: string
  /** A request that was never sent is divided into parts of about so many bytes. */
  partBytes?: number
  /** The page may come back: the logger stays open, and sends the same again then. */
  mayReturn?: boolean
}

export type Rest = { connection: Connection; left: { request: Request; entries: number }[] }
