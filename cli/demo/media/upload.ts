import { randomUUID } from 'node:crypto'
import { assetAnswer } from '../answers.ts'
import type { Client, Query } from '../client.ts'

/** Uploads a file with the fields of an asset; a retry takes its place. Resolves with its id; rejects with DemoError. */
export async function uploadAsset(client: Client, fields: Query, content: Buffer): Promise<string> {
  const assetId = randomUUID().replaceAll('-', '')
  const file = { bytes: new Uint8Array(content), type: 'application/octet-stream' }
  return (await client.upload('write/experiment/upload-asset', { ...fields, assetId }, file, assetAnswer)).assetId
}
