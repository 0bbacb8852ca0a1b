/** Something the person at the terminal can put right; the message says how, a stack trace would add nothing. */
export class DemoError extends Error {
  override name = 'DemoError'
}
