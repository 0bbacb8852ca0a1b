import { describeError } from '../runtime/describe-error.ts'
import { describeRedisAddress } from '../store/redis/address.ts'

/**
 * Adds the store's name and address to the error of `work`. An error that already names the store is kept as it is.
 */
export async function nameStoreError<T>(
  store: 'Postgres' | 'ClickHouse' | 'Redis',
  url: string,
  work: Promise<T>,
): Promise<T> {
  try {
    return await work
  } catch (error) {
    const text = describeError(error)
    if (text.startsWith(store) || text.startsWith(`The ${store}`)) throw error
    throw new Error(
      `${store} at ${store === 'Redis' ? describeRedisAddress(url) : new URL(url).host} cannot be used: ${text}`,
      { cause: error },
    )
  }
}
