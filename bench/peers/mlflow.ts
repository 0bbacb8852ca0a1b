import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Closers } from '../../runtime/closers.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { ask, type Peer, type PeerServer } from './peer.ts'
import { readFolderBytes, startProgram } from './program.ts'
import { findPrograms, type PythonPackage } from './python.ts'

export const mlflowPackage: PythonPackage = { name: 'mlflow', version: '3.17.2' }

/** MLflow's server with its defaults (four workers, SQLite), and the call that its client makes. */
export const mlflow: Peer = {
  name: 'mlflow',
  about: 'MLflow’s server, log-batch with 1,000 metrics a call',
  dialect: 'mlflowBatch',
  durability: 'SQLite with its rollback journal and fsync',
  pointsPerSecondMax: 20_000,
  start: startMlflow,
}

async function startMlflow(folder: string, closers: Closers): Promise<PeerServer> {
  const programs = await findPrograms(mlflowPackage)
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const file = path.join(folder, 'mlflow.db')
  const { pid } = await startProgram({
    command: path.join(programs, 'mlflow'),
    args: ['server', '--host', '127.0.0.1', '--port', String(port), '--backend-store-uri', `sqlite:///${file}`],
    environment: { MLFLOW_DISABLE_TELEMETRY: 'true', DO_NOT_TRACK: 'true', PATH: `${programs}:${process.env.PATH}` },
    workingFolder: folder,
    readyUrl: `${url}/health`,
    install: '',
    closers,
  })
  const call = async (name: string, body: object) =>
    JSON.parse(
      await ask(`${url}/api/2.0/mlflow/${name}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    )
  const { experiment_id } = await call('experiments/create', { name: 'bench' })

  return {
    url,
    pid: () => pid,
    version: `MLflow ${await ask(`${url}/version`)}`,
    async createExperiments(count) {
      const keys: string[] = []
      for (let at = 0; at < count; at++) {
        const { run } = await call('runs/create', { experiment_id, start_time: Date.now() })
        keys.push(run.info.run_id)
      }
      return keys
    },
    // Its answer comes after the commit.
    waitUntilReadable: async () => undefined,
    /** Its API has no count. Another process reads its database, and sees what any reader would. */
    async countPoints() {
      const database = new DatabaseSync(file, { readOnly: true, timeout: 10_000 })
      try {
        return Number(database.prepare('SELECT count(*) AS points FROM metrics').get()?.points)
      } finally {
        database.close()
      }
    },
    flushToDisk: () => readFolderBytes(folder),
  }
}
