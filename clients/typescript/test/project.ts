import { cp, mkdir, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import { aFolder, type OnClose, runCommand } from '../../../test/kit/processes/svc.ts'

export const home = fileURLToPath(new URL('..', import.meta.url))
const root = path.join(home, '../..')
const modules = path.join(root, 'node_modules')
const compiler = path.join(modules, '.bin/tsc')

/** What the package is packed from. */
const parts = ['src', 'package.json', 'tsconfig.json', 'README.md', 'CHANGELOG.md', 'LICENSE']

/** A folder of somebody who has installed the package: built, packed and installed as it is published. */
export async function openProject(onClose: OnClose) {
  // A copy, so that others may do the same at the same time.
  const copy = await aFolder(onClose)
  const source = path.join(copy, 'clients/typescript')
  const program = await aFolder(onClose)
  const start = (file: string, args: string[], cwd: string, env = {}) =>
    runCommand(file, args, { PATH: process.env.PATH ?? '', HOME: copy, ...env }, onClose, { cwd })

  /** @throws AssertionError with what it printed when it fails */
  async function run(file: string, args: string[], cwd: string): Promise<void> {
    const running = start(file, args, cwd)
    const { code } = await running.ended
    expect(code, running.stdout() + running.stderr()).toBe(0)
  }

  for (const part of parts) await cp(path.join(home, part), path.join(source, part), { recursive: true })
  await cp(path.join(root, 'tsconfig.json'), path.join(copy, 'tsconfig.json'))
  await symlink(modules, path.join(copy, 'node_modules'))
  const npm = (args: string[], cwd: string) => run('npm', [...args, '--loglevel=error'], cwd)
  await npm(['pack', '--pack-destination', copy], source)
  await writeFile(path.join(program, 'package.json'), '{"type":"module"}')
  await npm(['install', '--offline', '--no-audit', '--no-fund', path.join(copy, 'svc-client-0.1.0.tgz')], program)

  return {
    installed: path.join(program, 'node_modules/@svc/client'),

    /** Runs a program of JavaScript. */
    async run(name: string, text: string, environment: Record<string, string>) {
      await writeFile(path.join(program, name), text)
      const running = start(process.execPath, [name], program, environment)
      const { code, signal } = await running.ended
      return { code, signal, stdout: running.stdout(), stderr: running.stderr() }
    },

    /** Compiles a program, as strictly as it goes, with all types that it uses; answers what the compiler says. */
    async compile(name: string, text: string, options: string[]): Promise<string> {
      await writeFile(path.join(program, name), text)
      const strictly = ['--strict', '--skipLibCheck', 'false', '--target', 'es2023', '--noErrorTruncation']
      const compiling = start(compiler, [...strictly, ...options, name], program)
      await compiling.ended
      return compiling.stdout()
    },

    /** Adds the types of Node, for programs that are compiled for it. */
    async addNodeTypes() {
      const folder = path.join(program, 'node_modules/@types')
      await mkdir(folder)
      await symlink(path.join(modules, '@types/node'), path.join(folder, 'node'))
    },
  }
}
