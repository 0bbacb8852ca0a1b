import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Closers } from '../../runtime/closers.ts'

/** Creates a temporary folder that is removed with everything in it on close. */
export async function openFolder(closers: Pick<Closers, 'push'>): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-test-'))
  closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }))
  return folder
}
