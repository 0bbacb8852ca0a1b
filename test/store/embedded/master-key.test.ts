import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ensureMasterKey } from '../../../store/embedded/master-key.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'svc-master-key-'))
})
afterEach(() => {
  chmodSync(folder, 0o700)
  rmSync(folder, { recursive: true })
})

it('is created once in the data folder, readable only by its owner, and found again', () => {
  const key = ensureMasterKey(folder)
  expect(key).toHaveLength(32)
  expect(statSync(path.join(folder, 'master-key')).mode & 0o777).toBe(0o600)
  expect(ensureMasterKey(folder)).toEqual(key)
  expect(readdirSync(folder)).toEqual(['master-key'])
  expect(Buffer.from(readFileSync(path.join(folder, 'master-key'), 'utf8'), 'base64')).toEqual(key)
})

it('differs per folder, and the folder is created when it is missing', () => {
  expect(ensureMasterKey(path.join(folder, 'a/b'))).not.toEqual(ensureMasterKey(path.join(folder, 'c')))
})

it.each([[''], ['c2hvcnQ='], ['not base64 at all, and much too long to be a key of any kind']])(
  'that is damaged (%j) is said to be, never replaced: secrets are encrypted with it',
  (content) => {
    const file = path.join(folder, 'master-key')
    writeFileSync(file, content)
    expect(() => ensureMasterKey(folder)).toThrow(`The master key ${file} is damaged`)
    expect(readFileSync(file, 'utf8')).toBe(content)
  },
)
