import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Closers } from '../../runtime/closers.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { ask, nameExperiments, type Peer, type PeerServer } from './peer.ts'
import { readFolderBytes, startProgram } from './program.ts'

/**
 * VictoriaMetrics, single node. It has no WAL: acknowledged points are in memory for some seconds before they are written
 * to a file, without fsync. It stores a time and a value; a step would need a second series, and is not sent.
 */
const durability = 'none for some seconds: no WAL, no fsync'

export const victoriaMetrics: Peer = {
  name: 'victoria-metrics',
  about: 'VictoriaMetrics, /api/v1/import: a line of JSON for each series; no step',
  dialect: 'victoriaMetricsImport',
  durability,
  start: startVictoriaMetrics,
}

export const victoriaMetricsInflux: Peer = {
  name: 'victoria-metrics-influx',
  about: 'VictoriaMetrics, line protocol: a line for all metrics of a step; no step',
  dialect: 'influxFieldsOnly',
  durability,
  start: startVictoriaMetrics,
}

const pollMs = 10
const stalledMsMax = 60_000
const mergeMsMax = 120_000

async function startVictoriaMetrics(folder: string, closers: Closers): Promise<PeerServer> {
  const url = `http://127.0.0.1:${await findFreePort()}`
  const dataFolder = path.join(folder, 'data')
  const { pid } = await startProgram({
    command: 'victoria-metrics',
    args: [
      `-httpListenAddr=${url.slice('http://'.length)}`,
      `-storageDataPath=${dataFolder}`,
      '-retentionPeriod=100y',
      '-loggerLevel=ERROR',
    ],
    workingFolder: folder,
    readyUrl: `${url}/health`,
    install: 'install it with "apt-get install victoria-metrics" (Debian), or leave it out.',
    closers,
  })
  const readMetrics = async () => await ask(`${url}/metrics`)
  const version = /short_version="([^"]*)"/.exec(await readMetrics())?.[1] || 'of Debian'

  /** The number of rows visible to queries, by its own metrics. */
  async function readRows() {
    const lines = (await readMetrics()).matchAll(/^vm_rows\{type="storage\/[^"]*"\} (\d+)/gm)
    return [...lines].reduce((sum, [, rows]) => sum + Number(rows), 0)
  }

  return {
    url,
    pid: () => pid,
    version: `VictoriaMetrics ${version}`,
    createExperiments: async (count) => nameExperiments(count),
    /** New rows wait up to a second until queries see them; /internal/force_flush makes them visible at once. */
    async waitUntilReadable(points) {
      await ask(`${url}/internal/force_flush`)
      const deadline = performance.now() + stalledMsMax
      while ((await readRows()) < points) {
        if (performance.now() > deadline)
          throw new Error(`VictoriaMetrics shows ${await readRows()} of ${points} points.`)
        await sleep(pollMs)
      }
    },
    async countPoints() {
      // Its caches would return the count of the previous round.
      const parameters = { query: 'sum(count_over_time({__name__!="",experiment!=""}[1000d]))', nocache: '1' }
      const answer = await ask(`${url}/api/v1/query?${new URLSearchParams(parameters)}`)
      const { data } = JSON.parse(answer) as { data: { result: { value: [number, string] }[] } }
      return Number(data.result[0]?.value[1] ?? 0)
    },
    async flushToDisk() {
      await ask(`${url}/internal/force_flush`)
      await ask(`${url}/internal/force_merge`)
      const deadline = performance.now() + mergeMsMax
      let before = -1
      for (;;) {
        await sleep(3_000)
        const bytes =
          (await readFolderBytes(path.join(dataFolder, 'data'))) +
          (await readFolderBytes(path.join(dataFolder, 'indexdb')))
        const isMerging = /^vm_active_force_merges [1-9]/m.test(await readMetrics())
        if ((bytes === before && !isMerging) || performance.now() > deadline) return bytes
        before = bytes
      }
    },
  }
}
