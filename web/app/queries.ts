import { QueryCache, QueryClient } from '@tanstack/react-query'
import { session } from '../api/accounts.ts'
import { ApiError } from '../api/http.ts'

const retriesMax = 3

/** Reads are kept for a few seconds; those that may work later are tried again, those that are wrong are not. */
export function createQueries(): QueryClient {
  const client: QueryClient = new QueryClient({
    queryCache: new QueryCache({
      onError(error) {
        // The session may have ended: the reader learns it, and signs in again in the same place.
        if (error instanceof ApiError && error.status === 401) void client.invalidateQueries(session)
      },
    }),
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        retry: (failures, error) => failures < retriesMax && error instanceof ApiError && error.mayWorkLater,
      },
    },
  })
  return client
}
