import { readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { listFiles, root } from './source-files.ts'

const pages = listFiles().filter((file) => file.endsWith('.md'))

/** A page without what is in code: examples may look like links. */
const withoutCode = (text: string) =>
  text
    .replace(/^( *)(```|~~~)[\s\S]*?^\1\2.*$/gm, '')
    .replace(/(`+)[^`\n](?:[^`\n]|(?!\1)`)*\1(?!`)/g, (code) => code.replace(/[[\]()]/g, ''))

/** The anchors of a page: GitHub's form of its headings. */
function listAnchors(text: string): Set<string> {
  const seen = new Map<string, number>()
  const anchors = new Set<string>()
  for (const [, heading] of text.replace(/^( *)(```|~~~)[\s\S]*?^\1\2.*$/gm, '').matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const words = (heading as string).replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '')
    const anchor = words
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-')
    const times = seen.get(anchor) ?? 0
    seen.set(anchor, times + 1)
    anchors.add(times === 0 ? anchor : `${anchor}-${times}`)
  }
  return anchors
}

const read = (file: string) => readFileSync(path.join(root, file), 'utf8')

function describeFault(page: string, link: string): string | undefined {
  const [target = '', anchor] = link.split('#')
  const file = target === '' ? page : path.posix.join(path.posix.dirname(page), decodeURIComponent(target))
  const found = statSync(path.join(root, file), { throwIfNoEntry: false })
  if (!found) return `${page}: ${link}: there is no ${file}`
  if (anchor === undefined || anchor === '') return undefined
  if (!file.endsWith('.md')) return `${page}: ${link}: only pages have anchors`
  return listAnchors(read(file)).has(anchor) ? undefined : `${page}: ${link}: ${file} has no such heading`
}

it('every relative link of every page leads to a file, and every anchor to a heading', () => {
  const faults = pages.flatMap((page) => {
    const text = withoutCode(read(page))
    const links = [
      ...[...text.matchAll(/\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)/g)].map((it) => it[1] as string),
      ...[...text.matchAll(/^\[[^\]]+\]: +(\S+)/gm)].map((it) => it[1] as string),
    ].filter((link) => !/^[a-z][a-z0-9+.-]*:/i.test(link))
    return links.map((link) => describeFault(page, link)).filter((it) => it !== undefined)
  })
  expect(faults).toEqual([])
})

it('alert rules, comments and messages name pages that exist', () => {
  const named = listFiles()
    .filter((file) => /\.(ts|js|ya?ml|tpl|sh)$/.test(file) && !file.startsWith('test/house/'))
    .flatMap((file) =>
      [...read(file).matchAll(/\b((?:docs|deploy)\/[\w/-]+\.md(?:#[\w-]+)?)/g)].map((it) => ({
        file,
        link: it[1] as string,
      })),
    )
  const faults = named.map(({ file, link }) => describeFault('README.md', link)?.replace('README.md', file))
  expect(faults.filter((it) => it !== undefined)).toEqual([])
})
