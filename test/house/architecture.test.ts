import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { root } from './source-files.ts'

it.each(['docs/architecture.md', 'docs/contributing.md', 'docs/security.md'])(
  'every file that %s names exists',
  (page) => {
    const text = readFileSync(path.join(root, page), 'utf8')
    const named = [...text.matchAll(/`([\w.-]+\/[\w./-]*)`/g)].map((it) => it[1] as string)
    expect(named.length).toBeGreaterThan(0)
    expect(named.filter((it) => !existsSync(path.join(root, it)))).toEqual([])
  },
)
