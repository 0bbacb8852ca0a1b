import { describeError } from '../http/health.ts'
import { describeRedisAddress } from '../store/redis/address.ts'

/**
 * Runs what needs a store, so that its fault names the store and where it was looked for. What already names the store
 * says what to do, and stays as it is.
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
