/**
 * Runs synchronously if the value is not a promise: a value that is mostly cached must not cost a turn of the event loop.
 */
export function mapMaybeAsync<T, Result>(
  value: T | Promise<T>,
  next: (value: T) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(next) : next(value)
}
