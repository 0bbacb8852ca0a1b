import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { eventually } from '../kit/eventually.ts'
import { startRole } from '../kit/processes/svc.ts'
import { storesWith } from '../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

/** A worker that keeps what it compiles at a place in a folder of its own. */
async function startWorker(toPlace: (folder: string) => string | Promise<string>) {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-compiled-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  const place = await toPlace(folder)
  const worker = await startRole('worker', storesWith('postgres'), { NODE_COMPILE_CACHE: place }, [
    '--without-webhooks',
  ])
  closers.push(async () => {
    worker.kill('SIGKILL')
    await worker.ended
  })
  return { worker, place }
}

it('what was compiled is kept for the next start, also by a process that is killed', async () => {
  const { worker, place } = await startWorker((folder) => folder)
  await eventually(async () => expect((await readdir(place, { recursive: true })).length).toBeGreaterThan(100))
  worker.kill('SIGKILL')
  await worker.ended
  expect((await readdir(place, { recursive: true })).length).toBeGreaterThan(100)
})

it('where nothing can be kept a process starts all the same', async () => {
  const { worker } = await startWorker(async (folder) => {
    const file = path.join(folder, 'file')
    await writeFile(file, '')
    return path.join(file, 'below')
  })
  expect((await fetch(`${worker.url}/readyz`)).status).toBe(200)
})
