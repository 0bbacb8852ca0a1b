import type { Firing } from '../../api/monitoring.ts'
import { FiringTable } from '../../kit/alerts/firing-table.tsx'
import { toValue, toWindow } from '../words.ts'

const foundMax = 3

/** What the rules on a model found. */
export function ModelFirings({ firings, listedMax }: { firings: Firing[]; listedMax?: number }) {
  return (
    <FiringTable
      firings={firings}
      label="Firings"
      words={{ rule: 'Rule', found: 'Found' }}
      toWindow={(it) => toWindow(it.windowFrom, it.windowTo - it.windowFrom)}
      toFound={toFound}
      listedMax={listedMax}
    />
  )
}

function toFound({ found, measure }: Firing): string {
  const shown = found
    .slice(0, foundMax)
    .map(({ feature, value }) => `${feature === null ? '' : `${feature} `}${toValue(measure, value)}`)
    .join(', ')
  return found.length > foundMax ? `${shown} and ${found.length - foundMax} more` : shown
}
