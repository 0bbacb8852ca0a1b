/** SQL of a caller that cannot be run. The message is for the caller. */
export class SqlRefused extends Error {
  override name = 'SqlRefused'
}

/** SQL of a caller that would take more time, memory or rows than the limits allow. */
export class SqlTooLarge extends Error {
  override name = 'SqlTooLarge'
}
