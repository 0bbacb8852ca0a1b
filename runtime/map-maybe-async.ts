/**
 * Goes on at once with what is there, else when it comes: what mostly is there need not cost a turn of the event loop.
 */
export function mapMaybeAsync<T, Result>(
  value: T | Promise<T>,
  goOn: (value: T) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(goOn) : goOn(value)
}
