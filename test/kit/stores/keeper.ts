import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import path from 'node:path'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { ProgramMissing, startProcess, waitUntilReady } from '../processes/process.ts'

const jars = ['/usr/share/java/zookeeper.jar', '/usr/share/java/slf4j-simple.jar'].filter((it) => existsSync(it))

/** A ZooKeeper of our own, which serves ClickHouse as Keeper does; undefined where it is not installed (Debian: zookeeper). */
export async function startKeeper(folder: string): Promise<{ port: number; close(): Promise<void> } | undefined> {
  if (!jars.some((it) => it.endsWith('zookeeper.jar'))) return undefined
  const port = await findFreePort()
  await mkdir(folder, { recursive: true })
  const config = path.join(folder, 'zoo.cfg')
  await writeFile(
    config,
    `tickTime=500\ndataDir=${folder}\nclientPort=${port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n`,
  )
  const main = ['-Xmx192m', '-cp', jars.join(':'), 'org.apache.zookeeper.server.quorum.QuorumPeerMain']
  try {
    const keeper = startProcess({ file: 'java', args: [...main, config], environment: {} })
    await waitUntilReady('ZooKeeper', keeper, () => reach(port), 120_000)
    return { port, close: async () => void (await keeper.stop('SIGKILL')) }
  } catch (error) {
    if (error instanceof ProgramMissing) return undefined
    throw error
  }
}

function reach(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve()
    })
    socket.once('error', reject)
  })
}
