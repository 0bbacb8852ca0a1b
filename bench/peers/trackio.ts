import { randomBytes } from 'node:crypto'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Closers } from '../../runtime/closers.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { nameExperiments, type Peer, type PeerServer } from './peer.ts'
import { readFolderBytes, startProgram } from './program.ts'
import { findPrograms, type PythonPackage } from './python.ts'

export const trackioPackage: PythonPackage = { name: 'trackio', version: '0.43.0' }

/** trackio's server, and the call that its client makes. All metrics of a step are one JSON row in SQLite. */
export const trackio: Peer = {
  name: 'trackio',
  about: 'trackio’s server, bulk_log with 20 steps of 50 metrics a call',
  dialect: 'trackioBulk',
  durability: 'SQLite WAL, synchronous NORMAL: no fsync before the answer',
  pointsPerSecondMax: 60_000,
  start: startTrackio,
}

const launch = 'import trackio; trackio.show(open_browser=False, block_thread=True, share=False)'
const pollMs = 20
const stalledMsMax = 60_000

async function startTrackio(folder: string, closers: Closers): Promise<PeerServer> {
  const programs = await findPrograms(trackioPackage)
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const apiKey = randomBytes(24).toString('hex')
  const { pid } = await startProgram({
    command: path.join(programs, 'python'),
    args: ['-c', launch],
    environment: {
      TRACKIO_DIR: folder,
      TRACKIO_WRITE_TOKEN: apiKey,
      GRADIO_SERVER_PORT: String(port),
      HF_HUB_OFFLINE: '1',
      HF_HUB_DISABLE_TELEMETRY: '1',
    },
    workingFolder: folder,
    readyUrl: `${url}/version`,
    install: '',
    closers,
  })
  /** Its API cannot count points inside the JSON rows. Another process reads its database, and sees what any reader would. */
  const countPoints = async () => {
    const database = new DatabaseSync(path.join(folder, 'bench.db'), { readOnly: true, timeout: 10_000 })
    try {
      const inRow = 'SELECT count(*) FROM json_each(CAST(metrics AS TEXT))'
      return Number(database.prepare(`SELECT coalesce(sum((${inRow})), 0) AS points FROM metrics`).get()?.points)
    } finally {
      database.close()
    }
  }
  return {
    url,
    pid: () => pid,
    apiKey,
    version: `trackio ${trackioPackage.version}`,
    createExperiments: async (count) => nameExperiments(count),
    /** It acknowledges writes even while its database is busy, and stores them later. */
    async waitUntilReadable(points) {
      const deadline = performance.now() + stalledMsMax
      while ((await countPoints()) < points) {
        if (performance.now() > deadline) throw new Error(`trackio shows ${await countPoints()} of ${points} points.`)
        await sleep(pollMs)
      }
    },
    countPoints,
    flushToDisk: () => readFolderBytes(folder),
  }
}
