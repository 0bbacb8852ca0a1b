import type { Entry, Shipment } from './sender.ts'

const path = '/clientlib/batch/logger/experiment/parameter'

/** A parameter, with its fields as JSON. */
export type ParameterEntry = Entry & { kind: 'parameter'; json: string }

type Deps = { experimentKey: string; newRequestKey(): string }

/** What a parameter takes in memory, roughly. */
export const parameterBytes = ({ json }: { json: string }) => json.length * 2 + 200

/**
 * Parameters in one request. A page that closes depends on it: a browser has six connections, and each request that waits for the
 * experiment keeps one from what creates it.
 */
export function toParameterShipment(entries: ParameterEntry[], deps: Deps): Shipment<ParameterEntry> {
  const { experimentKey } = deps
  const requestKey = deps.newRequestKey()
  const middle = Math.ceil(entries.length / 2)
  const body = () =>
    `{"experimentKey":${JSON.stringify(experimentKey)},"values":[${entries.map((it) => it.json).join(',')}]}`

  return {
    entries,
    toRequest: () => ({ kind: 'json', path, body: body(), key: requestKey }),
    ...(entries.length > 1 && {
      split: () => [
        toParameterShipment(entries.slice(0, middle), deps),
        toParameterShipment(entries.slice(middle), deps),
      ],
    }),
  }
}
