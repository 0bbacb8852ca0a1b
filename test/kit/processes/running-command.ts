import { readFile, readlink } from 'node:fs/promises'

/** What a process was started with. */
export type Command = { file: string; args: string[]; folder?: string; environment: NodeJS.ProcessEnv }

/**
 * Reads what a running process was started with, so that the same can be started again after it was killed: on the same
 * files, with the same port and password. Linux only.
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

/** The most memory a process has held so far, in bytes; 0 when it has ended. */
export async function readPeakMemory(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/^VmHWM:\s*(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024
}

async function readList(file: string): Promise<string[]> {
  const text = await readFile(file, 'utf8')
  return text.replace(/\0$/, '').split('\0')
}
