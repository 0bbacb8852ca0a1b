import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'

export const root = path.resolve(import.meta.dirname, '../..')

/** The files of the repository, tracked or new, by their path below its root. */
export function listFiles(): string[] {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 ** 2,
  })
  return listed.split('\0').filter((file) => file !== '' && existsSync(path.join(root, file)))
}

/** The relative imports of a TypeScript file, by path below the root; those of types included. */
export function listImports(file: string, text: string): string[] {
  const found = text.matchAll(/(?:\bfrom\s*|\bimport\s*\(\s*|^import\s+)'(\.{1,2}\/[^']+)'/gm)
  return [...found].map(([, target]) => path.posix.join(path.posix.dirname(file), target as string))
}
