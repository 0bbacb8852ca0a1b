import { readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Closers } from '../../runtime/closers.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { ask, nameExperiments, type Peer, type PeerServer } from './peer.ts'
import { type Program, readFolderBytes, startProgram } from './program.ts'

/**
 * InfluxDB 1.6 over its line protocol, with its defaults: an fsync of its WAL for every write, the index in memory. The log
 * line per request is turned off, to its advantage. Acknowledged points can be read at once.
 */
const durability = 'WAL fsync before each answer (wal-fsync-delay 0)'

export const influxLines: Peer = {
  name: 'influxdb',
  about: 'InfluxDB 1.6, a line for each point: its value, no step',
  dialect: 'influxLines',
  durability,
  start: (folder, closers) => startInfluxDb(folder, closers, 'value'),
}

export const influxLinesWithStep: Peer = {
  name: 'influxdb-with-step',
  about: 'InfluxDB 1.6, a line for each point: its value and its step, as a tracker has to keep it',
  dialect: 'influxLinesWithStep',
  durability,
  start: (folder, closers) => startInfluxDb(folder, closers, 'value'),
}

export const influxFields: Peer = {
  name: 'influxdb-fields',
  about: 'InfluxDB 1.6, a line for all metrics of a step: what it takes fastest',
  dialect: 'influxFields',
  durability,
  start: (folder, closers) => startInfluxDb(folder, closers, 'fields'),
}

const snapshotMsMax = 120_000

async function startInfluxDb(folder: string, closers: Closers, kind: 'value' | 'fields'): Promise<PeerServer> {
  const url = `http://127.0.0.1:${await findFreePort()}`
  const rpc = `127.0.0.1:${await findFreePort()}`
  const start = (more: Record<string, string> = {}) =>
    startProgram({
      command: 'influxd',
      args: ['run', '-config', '/dev/null'],
      environment: {
        INFLUXDB_BIND_ADDRESS: rpc,
        INFLUXDB_HTTP_BIND_ADDRESS: url.slice('http://'.length),
        INFLUXDB_HTTP_LOG_ENABLED: 'false',
        INFLUXDB_META_DIR: path.join(folder, 'meta'),
        INFLUXDB_DATA_DIR: path.join(folder, 'data'),
        INFLUXDB_DATA_WAL_DIR: path.join(folder, 'wal'),
        INFLUXDB_DATA_QUERY_LOG_ENABLED: 'false',
        INFLUXDB_MONITOR_STORE_ENABLED: 'false',
        INFLUXDB_REPORTING_DISABLED: 'true',
        INFLUXDB_LOGGING_LEVEL: 'error',
        ...more,
      },
      workingFolder: folder,
      readyUrl: `${url}/ping`,
      install: 'install it with "apt-get install influxdb" (Debian), or leave it out.',
      closers,
    })
  let program: Program = await start()
  const ping = await fetch(`${url}/ping`)
  const query = async (statement: string) => {
    const answer = await ask(`${url}/query?db=bench`, { method: 'POST', body: new URLSearchParams({ q: statement }) })
    return JSON.parse(answer) as Answer
  }
  await query('CREATE DATABASE bench')

  return {
    url,
    pid: () => program.pid,
    version: `InfluxDB ${ping.headers.get('x-influxdb-version')}`,
    createExperiments: async (count) => nameExperiments(count),
    waitUntilReadable: async () => undefined,
    async countPoints() {
      // One count per field. A step on a line of its own is not a point.
      const { results } = await query(
        kind === 'value' ? 'SELECT count(value) FROM /.*/' : 'SELECT count(*) FROM metrics',
      )
      const columns = (results[0]?.series ?? []).flatMap(({ columns, values }) =>
        columns.map((column, index) => ({ column, count: values[0]?.[index] ?? 0 })),
      )
      return columns
        .filter(({ column }) => column !== 'time' && column !== 'count_step')
        .reduce((sum, { count }) => sum + count, 0)
    },
    /**
     * By default it waits ten minutes without writes before it flushes its WAL to files, and four hours before it compacts
     * them fully: the settings shorten both. The rest of the WAL stays until the next write, and is not counted.
     */
    async flushToDisk() {
      await program.close()
      const startedAgainAt = Date.now()
      program = await start({
        INFLUXDB_DATA_CACHE_SNAPSHOT_WRITE_COLD_DURATION: '1s',
        INFLUXDB_DATA_COMPACT_FULL_WRITE_COLD_DURATION: '1s',
      })
      const deadline = performance.now() + snapshotMsMax
      const files = path.join(folder, 'data')
      let sizes: number[] = []
      for (;;) {
        await sleep(3_000)
        sizes = [...sizes, await readFolderBytes(files)].slice(-3)
        const isSettled = sizes.length === 3 && new Set(sizes).size === 1
        if (isSettled && (await findNewestFile(files)) > startedAgainAt) return sizes[0] as number
        // The WAL was empty, or flushing takes too long: count the files as they are.
        if (performance.now() > deadline) return sizes.at(-1) as number
      }
    },
  }
}

/** The modification time of the newest data file, in ms since the epoch. */
async function findNewestFile(folder: string): Promise<number> {
  const names = (await readdir(folder, { recursive: true })).filter((it) => it.endsWith('.tsm'))
  // A file may be compacted away meanwhile.
  const times = names.map((name) =>
    stat(path.join(folder, name)).then(
      (it) => it.mtimeMs,
      () => 0,
    ),
  )
  return Math.max(0, ...(await Promise.all(times)))
}

type Answer = { results: { series?: { columns: string[]; values: number[][] }[] }[] }
