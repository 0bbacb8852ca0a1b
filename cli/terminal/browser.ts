import { spawn } from 'node:child_process'
import { describeTerminal, type Output } from './terminal.ts'

type Place = { input: { isTTY?: boolean }; out: Output; env: NodeJS.ProcessEnv; platform: NodeJS.Platform }

/**
 * The command that opens an address in a browser; undefined where nobody would see it: without a terminal, in CI, over
 * SSH, or without a screen.
 */
export function findBrowser({ input, out, env, platform }: Place): string[] | undefined {
  if (input.isTTY !== true || !describeTerminal(out, env).isTty || env.CI || env.SSH_CONNECTION) return undefined
  if (platform === 'darwin') return ['open']
  if (platform === 'win32') return ['rundll32', 'url.dll,FileProtocolHandler']
  return env.DISPLAY || env.WAYLAND_DISPLAY ? ['xdg-open'] : undefined
}

/** Opens an address; a browser that is missing is no error, because the address is printed as well. */
export function openInBrowser([command, ...words]: string[], url: string) {
  const child = spawn(command as string, [...words, url], { detached: true, stdio: 'ignore' })
  child.on('error', () => undefined)
  child.unref()
}
