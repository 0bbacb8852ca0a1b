import { readFile, readlink } from 'node:fs/promises'
import type { Command } from './process.ts'

/**
 * Reads the command of a running process, so that the same can be started again after a kill: on the same files, with
 * the same port and password. Linux only.
 */
export async function readCommand(pid: number): Promise<Command> {
  const [file = '', ...args] = await readList(`/proc/${pid}/cmdline`)
  const variables = await readList(`/proc/${pid}/environ`)
  return {
    file,
    args,
    folder: await readlink(`/proc/${pid}/cwd`),
    environment: Object.fromEntries(variables.map((it) => it.split(/=(.*)/s, 2))),
  }
}

export async function readParent(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^PPid:\s*(\d+)/m.exec(status)?.[1])
}

async function readList(file: string): Promise<string[]> {
  const text = await readFile(file, 'utf8')
  return text.replace(/\0$/, '').split('\0')
}
