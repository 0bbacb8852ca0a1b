import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { type DataSet, nameOf, timestampAt, valueAt } from '../../test/kit/curves.ts'
import type { BenchExperiments } from '../load/experiments.ts'
import { countPoints } from './stored-points.ts'

/** Acknowledged points since the tables were emptied. */
export type Acknowledged = { perExperiment: number[]; unclearPoints: number }

type Settings = {
  readUrl: string
  apiKey: string
  clickhouse: ClickHouse
  experiments: BenchExperiments
  data: DataSet
  acknowledged: Acknowledged
}

const experimentsReadMax = 3

/**
 * Compares acknowledged and stored points: their number for every experiment in ClickHouse, and every value and time of some
 * experiments over HTTP. Points of rejected or unanswered requests may be stored as well.
 *
 * @throws Error with the first difference
 */
export async function verifyStored(settings: Settings): Promise<{ points: number; pointsReadOverHttp: number }> {
  const { clickhouse, experiments, acknowledged } = settings
  const stored = await countPoints(clickhouse)
  let points = 0
  let surplus = 0
  for (const [experiment, id] of experiments.ids.entries()) {
    const expected = acknowledged.perExperiment[experiment] ?? 0
    const found = stored.get(id) ?? 0
    if (found < expected) throw new Error(`Experiment ${id} has ${found} points; ${expected} were acknowledged.`)
    points += expected
    surplus += found - expected
  }
  if (surplus > acknowledged.unclearPoints) {
    throw new Error(`${surplus} more points are stored than were acknowledged; ${acknowledged.unclearPoints} may be.`)
  }
  return { points, pointsReadOverHttp: await readSample(settings) }
}

async function readSample({ readUrl, apiKey, experiments, data, acknowledged }: Settings): Promise<number> {
  const written = [...acknowledged.perExperiment.keys()].filter((it) => (acknowledged.perExperiment[it] ?? 0) > 0)
  const sample = [...new Set([written.at(0), written.at(Math.floor(written.length / 2)), written.at(-1)])]
  let read = 0
  for (const experiment of sample.slice(0, experimentsReadMax)) {
    if (experiment === undefined) continue
    const expected = acknowledged.perExperiment[experiment] ?? 0
    let points = 0
    for (let metric = 0; metric < data.metrics; metric++) {
      const experimentKey = experiments.keys[experiment] as string
      const query = new URLSearchParams({ experimentKey, metricName: nameOf(metric) })
      const answer = await fetch(`${readUrl}/api/rest/v2/experiment/metrics/get-metric?${query}`, {
        headers: { authorization: apiKey },
      })
      const { metrics } = (await answer.json()) as { metrics: ReadPoint[] }
      for (const point of metrics) checkPoint(point, experiment % data.experiments, metric)
      points += metrics.length
    }
    if (points < expected || points > expected + acknowledged.unclearPoints) {
      throw new Error(`HTTP answers ${points} points of experiment ${experiment}; ${expected} were acknowledged.`)
    }
    read += points
  }
  return read
}

type ReadPoint = { metricName: string; metricValue: string; step: number; timestamp: number }

function checkPoint(point: ReadPoint, experiment: number, metric: number) {
  const value = valueAt({ experiment, metric, step: point.step })
  const timestamp = timestampAt({ experiment, step: point.step })
  if (Number(point.metricValue) !== value || point.timestamp !== timestamp) {
    throw new Error(`A point was altered: ${JSON.stringify(point)} should have ${value} at ${timestamp}.`)
  }
}
