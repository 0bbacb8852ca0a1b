import { type Route, route } from '../../http/route.ts'
import { readBatch } from './batch.ts'
import { eventsBatch, labelsBatch, ping } from './descriptions.ts'
import { createEventWrite, type EventDeps } from './write.ts'

/** Batches of events and labels of deployed models; CSV files are in `csv/`. */
export function createMonitoringRoutes(deps: EventDeps): Route[] {
  const writeEvents = createEventWrite(deps)
  return [
    route({ ...ping, handle: () => ({ msg: 'Ok' }) }),
    route({
      ...eventsBatch,
      handle: ({ body, query, caller }) =>
        writeEvents({
          batch: readBatch(body, false),
          caller,
          call: 'events/batch',
          allOrNothing: query.enforceValidation === true,
        }),
    }),
    route({
      ...labelsBatch,
      handle: ({ body, query, caller }) =>
        writeEvents({
          batch: readBatch(body, true),
          caller,
          call: 'labels/batch',
          allOrNothing: query.enforceValidation === true,
        }),
    }),
  ]
}
