/** An error that the user can fix; the message says how, so no stack trace is printed. */
export class DemoError extends Error {
  override name = 'DemoError'
}
