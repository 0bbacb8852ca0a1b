import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import path from 'node:path'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { eventually } from '../eventually.ts'

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
  const child = spawn(
    'java',
    ['-Xmx192m', '-cp', jars.join(':'), 'org.apache.zookeeper.server.quorum.QuorumPeerMain', config],
    { stdio: 'ignore' },
  )
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const hasStarted = await new Promise<boolean>((resolve) => {
    child.once('spawn', () => resolve(true))
    child.once('error', () => resolve(false))
  })
  if (!hasStarted) return undefined
  await eventually(() => reach(port), 120_000)
  return {
    port,
    async close() {
      child.kill('SIGKILL')
      await ended
    },
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
