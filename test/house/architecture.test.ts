import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { listFiles, root } from './source-files.ts'

it.each(['docs/architecture.md', 'docs/contributing.md', 'docs/security.md'])(
  'every file that %s names exists',
  (page) => {
    const text = readFileSync(path.join(root, page), 'utf8')
    const named = [...text.matchAll(/`([\w.-]+\/[\w./-]*)`/g)].map((it) => it[1] as string)
    expect(named.length).toBeGreaterThan(0)
    expect(named.filter((it) => !existsSync(path.join(root, it)))).toEqual([])
  },
)

const sourceName = /^[\w./-]+\.(ts|sql|cjs|sh|py)$/

it('every source file that the README of a folder names exists below it, or at that path', () => {
  const files = listFiles()
  const pages = files.filter((file) => file.endsWith('/README.md') && !file.startsWith('docs/'))
  expect(pages.length).toBeGreaterThan(10)
  const missing = pages.flatMap((page) => {
    const below = files.filter((file) => file.startsWith(`${path.dirname(page)}/`))
    const text = readFileSync(path.join(root, page), 'utf8')
    return [...text.matchAll(/`([^`\s]+)`/g)]
      .map((it) => it[1] as string)
      .filter((name) => sourceName.test(name))
      .filter((name) => !files.includes(name) && !below.some((file) => `/${file}`.endsWith(`/${name}`)))
      .map((name) => `${page} names ${name}`)
  })
  expect(missing).toEqual([])
})
