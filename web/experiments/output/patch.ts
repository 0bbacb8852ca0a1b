/** A patch as `git diff` writes it, for display. What is not understood stays a plain line, so nothing is lost. */

type PatchLine = {
  kind: 'add' | 'remove' | 'same' | 'hunk' | 'note'
  text: string
  before?: number
  after?: number
}
export type PatchFile = { name: string; added: number; removed: number; lines: PatchLine[] }

const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/

export function parsePatch(patch: string): PatchFile[] {
  const files: PatchFile[] = []
  let file: PatchFile | undefined
  let before = 0
  let after = 0
  let beforeLeft = 0
  let afterLeft = 0
  const open = (name: string) => {
    file = { name, added: 0, removed: 0, lines: [] }
    files.push(file)
    return file
  }
  for (const text of patch.replace(/\n$/, '').split('\n')) {
    const isInHunk = beforeLeft > 0 || afterLeft > 0
    const numbers = isInHunk ? null : hunk.exec(text)
    if (numbers) {
      before = Number(numbers[1])
      after = Number(numbers[3])
      beforeLeft = Number(numbers[2] ?? 1)
      afterLeft = Number(numbers[4] ?? 1)
      ;(file ?? open('')).lines.push({ kind: 'hunk', text })
    } else if (!isInHunk) {
      const started = /^diff --git (?:"?a\/.+?"?) "?b\/(.+?)"?$/.exec(text)
      if (started) open(started[1] as string)
      else if (text.startsWith('--- ') && (file === undefined || hunk.test(file.lines.at(-1)?.text ?? ''))) open('')
      else if (text.startsWith('+++ ') && file?.name === '')
        file.name = text.slice(4).replace(/^b\//, '').split('\t')[0] as string
      else if (!/^(index |--- |\+\+\+ )/.test(text) && text !== '')
        (file ?? open('')).lines.push({ kind: 'note', text })
    } else if (text.startsWith('+')) {
      ;(file as PatchFile).added++
      afterLeft--
      file?.lines.push({ kind: 'add', text: text.slice(1), after: after++ })
    } else if (text.startsWith('-')) {
      ;(file as PatchFile).removed++
      beforeLeft--
      file?.lines.push({ kind: 'remove', text: text.slice(1), before: before++ })
    } else if (text.startsWith('\\')) file?.lines.push({ kind: 'note', text: text.slice(2) })
    else {
      beforeLeft--
      afterLeft--
      file?.lines.push({ kind: 'same', text: text.slice(1), before: before++, after: after++ })
    }
  }
  return files
}
