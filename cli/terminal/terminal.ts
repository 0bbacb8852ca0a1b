import { styleText } from 'node:util'

/** The output of a command: a terminal, a file or a pipe. */
export type Output = NodeJS.WritableStream & { isTTY?: boolean; columns?: number }

export type Colour = 'blue' | 'cyan' | 'green' | 'red' | 'yellow' | 'bold' | 'dim'

export interface Terminal {
  isTty: boolean
  /** Whether the locale can show more than ASCII. */
  isUnicode: boolean
  columns: number
  paint(colour: Colour, text: string): string
}

/** The abilities of the output, from the stream and the environment (NO_COLOR, TERM, LC_ALL, LC_CTYPE, LANG). */
export function describeTerminal(out: Output, env: NodeJS.ProcessEnv): Terminal {
  const isTty = out.isTTY === true && env.TERM !== 'dumb'
  const isColoured = isTty && !env.NO_COLOR
  return {
    isTty,
    isUnicode: /utf-?8/i.test(env.LC_ALL || env.LC_CTYPE || env.LANG || ''),
    columns: out.columns || 100,
    paint: (colour, text) => (isColoured ? styleText(colour, text, { validateStream: false }) : text),
  }
}
