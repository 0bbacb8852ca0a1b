import { existsSync, openAsBlob } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Platform } from '../platform.ts'
import { endAtExit } from './exit.ts'

/** What the loggers are given in Node, besides what both have. */
export type NodeOptions = {
  /** Sends what there is at SIGTERM, before the process ends by it. False, for servers that handle it themselves. */
  flushOnSigterm?: boolean
}

const compress = promisify(gzip)

export function createPlatform({ flushOnSigterm = false }: NodeOptions = {}): Platform<string | Uint8Array> {
  return {
    environment: process.env,
    defaultUrl: 'http://127.0.0.1:8080',
    headers: { 'user-agent': 'svc-client-node' },
    // The quickest level: it takes most of what there is to take.
    gzip: (text) => compress(text, { level: 1 }),
    hintUnreachable: () => '',
    onOpen: (ending) => endAtExit(ending, flushOnSigterm),
    toAsset(asset) {
      if (typeof asset !== 'string') {
        const file = new Uint8Array(asset)
        return { name: undefined, file, bytes: file.length }
      }
      if (!existsSync(asset)) throw new Error(`the file ${asset} cannot be read: it is not there`)
      return { name: path.basename(asset), file: asset, bytes: 0 }
    },
    openFile: (file) => openAsBlob(file),
  }
}
