import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { listFiles, listImports, root } from './source-files.ts'

const tiers = ['http', 'throttle', 'store', 'runtime']
/** What each room may import besides itself. */
const allowed: Record<string, string[]> = {
  cli: ['ingest', 'workers', 'api', ...tiers],
  ingest: tiers,
  workers: tiers,
  api: tiers,
  http: ['throttle', 'store', 'runtime'],
  throttle: ['store', 'runtime'],
  store: ['runtime'],
  runtime: [],
}
const code = listFiles().filter((file) => /\.(ts|js|mjs|cjs)$/.test(file))
const read = (file: string) => readFileSync(path.join(root, file), 'utf8')
const toRoom = (file: string) => file.split('/')[0] as string
const importsOf = (file: string) => listImports(file, read(file))

it('imports point one way: cli -> ingest, workers, api -> http -> throttle -> store -> runtime', () => {
  const rooms = Object.keys(allowed)
  expect(rooms.filter((room) => !code.some((file) => toRoom(file) === room))).toEqual([])
  const wrong = code
    .filter((file) => rooms.includes(toRoom(file)))
    .flatMap((file) => {
      const may = [toRoom(file), ...(allowed[toRoom(file)] as string[])]
      return importsOf(file)
        .filter((target) => target.includes('/') && !may.includes(toRoom(target)))
        .map((target) => `${file} imports ${target}`)
    })
  expect(wrong).toEqual([])
})

/** Pages are put together in `app`; what they share is in `api` and `kit`. */
const sharedRooms = ['api', 'kit']

it('web/ imports nothing of other folders, and its rooms do not know each other', () => {
  const pages = listFiles().filter((file) => /^web\/\w+\/.*\.tsx?$/.test(file))
  const toPagesRoom = (file: string) => file.split('/')[1] as string
  expect(pages.length).toBeGreaterThan(20)
  const wrong = pages.flatMap((file) => {
    const room = toPagesRoom(file)
    const mayUse = (target: string) =>
      target.startsWith('web/') &&
      (room === 'app' || toPagesRoom(target) === room || sharedRooms.includes(toPagesRoom(target)))
    return importsOf(file)
      .filter((target) => !mayUse(target))
      .map((target) => `${file} imports ${target}`)
  })
  expect(wrong).toEqual([])
})

it('only tests import test/, and bench/ only test/kit', () => {
  const mayImportTests = /^(vitest\.config\.ts$|test\/|deploy\/test\/|clients\/typescript\/test\/|.*\.test\.ts$)/
  const wrong = code
    .filter((file) => !mayImportTests.test(file))
    .flatMap((file) =>
      importsOf(file)
        .filter((target) => target.startsWith('test/'))
        .filter((target) => !(file.startsWith('bench/') && target.startsWith('test/kit/')))
        .map((target) => `${file} imports ${target}`),
    )
  expect(wrong).toEqual([])
})
