import path from 'node:path'
import { expect, it } from 'vitest'
import { listFiles } from './source-files.ts'

const filesMax = 20

it('no folder has more than 20 source files side by side', () => {
  const source = listFiles().filter((file) => /\.(ts|js|mjs|cjs|py|go)$/.test(file))
  const byFolder = Map.groupBy(source, (file) => path.dirname(file))
  const full = [...byFolder].filter(([, files]) => files.length > filesMax)
  expect(full.map(([folder, files]) => `${folder}: ${files.length}`)).toEqual([])
})
