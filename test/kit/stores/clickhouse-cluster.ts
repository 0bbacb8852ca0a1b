import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { buffer } from 'node:stream/consumers'
import { type Logger, pino } from 'pino'
import { createClosers } from '../../../runtime/closers.ts'
import { findClickHouseLibrary, toClickHouseUsers, writePrivateFile } from '../../../store/embedded/clickhouse.ts'
import { startEngine } from '../../../store/embedded/engine.ts'
import { makePrivateFolder } from '../../../store/embedded/folder.ts'
import { findFreePort } from '../../../store/embedded/free-port.ts'

/**
 * A cluster of real engines on this machine: shards of one replica, which ask each other over the native protocol.
 *
 * The engine of the embedded store lacks two parts of a server (measured with 26.7): it runs no statement `ON CLUSTER`
 * ("Replicated DDL queries are disabled"), and its replicated tables are made in Keeper but stay read-only, for it has no
 * interserver port ("Parameter 'interserver_http(s)_port' required for replication is not specified"). So what a cluster
 * passes on by itself is passed on here: a statement `ON CLUSTER` is parsed by the engine as it is, and then run on every
 * node without it; and the tables are not replicated, unless there is a Keeper to make them in. All else is the engine's:
 * Distributed tables, inserts that are spread over shards, and every read.
 *
 * About once in a hundred kills (measured with 26.7) the engine aborts when a shard that it talks to is
 * killed: a background thread of its own throws. Such a node is started again on its files, as a supervisor would.
 */
export type ClickHouseCluster = {
  name: string
  /** The address of the cluster, to be given as CLICKHOUSE_URL. */
  url: string
  /** The address of each node by itself. */
  nodeUrls: string[]
  /** What was defined and deleted, as it was asked for. */
  statements: string[]
  /** Kills a node, or starts it again on its files. */
  kill(node: number): Promise<void>
  restart(node: number): Promise<void>
  close(): Promise<void>
}

type Node = {
  httpPort: number
  tcpPort: number
  folder: string
  pid?: number
  stop?: () => Promise<void>
  /** Whether its end is wanted. */
  isStopped?: boolean
}

const cluster = 'test_cluster'

export async function openClickHouseCluster(options: {
  folder: string
  database: string
  shards: number
  /** Where tables are to be replicated in; without it they are not replicated. */
  keeperPort?: number
  log?: Logger
}): Promise<ClickHouseCluster> {
  const { folder, database, shards, keeperPort, log = pino({ level: 'silent' }) } = options
  const closers = createClosers()
  const password = randomBytes(12).toString('hex')
  const nodes: Node[] = []
  for (let shard = 1; shard <= shards; shard++) {
    const [httpPort, tcpPort] = [await findFreePort(), await findFreePort()]
    nodes.push({ httpPort, tcpPort, folder: path.join(folder, `shard-${shard}`) })
  }

  async function start(node: Node) {
    const [configFile, usersFile] = [path.join(node.folder, 'config.xml'), path.join(node.folder, 'users.xml')]
    await makePrivateFolder(node.folder)
    await makePrivateFolder(path.join(node.folder, 'data'))
    const shard = nodes.indexOf(node) + 1
    await writePrivateFile(configFile, toConfig({ nodes, shard, password, usersFile, keeperPort }))
    await writePrivateFile(usersFile, toClickHouseUsers(password, password))
    const run = await startEngine({
      name: `ClickHouse shard ${shard}`,
      script: new URL('../../../store/embedded/clickhouse-process.ts', import.meta.url),
      args: [
        findClickHouseLibrary(),
        'HTTP,TCP',
        `--config-file=${configFile}`,
        `--path=${path.join(node.folder, 'data')}`,
        '--listen_host=127.0.0.1',
        `--http_port=${node.httpPort}`,
      ],
      folder: node.folder,
      async checkReady() {
        const answer = await ask(node, password, new URLSearchParams(), 'SELECT 1')
        if (answer.status !== 200) throw new Error(answer.text)
      },
      startMsMax: 120_000,
      stopMsMax: 20_000,
      signal: new AbortController().signal,
      log,
    })
    node.stop = run.stop
    node.pid = run.pid
    node.isStopped = false
    void run.ended.then(async (how) => {
      if (node.isStopped) return
      log.warn(`ClickHouse shard ${shard} ${how}`)
      await start(node)
    })
  }

  async function stop(node: Node) {
    node.isStopped = true
    await node.stop?.()
  }

  const statements: string[] = []
  const server = createServer((inbound, outbound) => {
    passOn(inbound, outbound, { nodes, password, isReplicated: keeperPort !== undefined, statements }).catch(
      (error) => {
        // As a server that is away: the connection breaks.
        log.warn({ err: error }, 'the cluster did not answer')
        outbound.destroy()
      },
    )
  })
  try {
    for (const node of nodes) {
      await start(node)
      closers.push(() => stop(node))
    }
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    closers.push(() => closeServer(server))
  } catch (error) {
    await closers.closeAll()
    throw error
  }
  const toUrl = (port: number) => `http://svc:${password}@127.0.0.1:${port}/${database}`
  return {
    name: cluster,
    url: toUrl((server.address() as AddressInfo).port),
    nodeUrls: nodes.map((it) => toUrl(it.httpPort)),
    statements,
    async kill(at) {
      const node = nodes[at] as Node
      node.isStopped = true
      process.kill(node.pid as number, 'SIGKILL')
      await node.stop?.()
    },
    restart: (at) => start(nodes[at] as Node),
    close: closers.closeAll,
  }
}

function closeServer(server: ReturnType<typeof createServer>): Promise<void> {
  server.closeAllConnections()
  return new Promise((resolve) => server.close(() => resolve()))
}

type Passing = { nodes: Node[]; password: string; isReplicated: boolean; statements: string[] }

/** To the first node, as a load balancer would; and statements for the cluster to every one. */
async function passOn(inbound: IncomingMessage, outbound: ServerResponse, to: Passing): Promise<void> {
  const { searchParams, search, pathname } = new URL(inbound.url ?? '/', 'http://cluster')
  const [first] = to.nodes as [Node, ...Node[]]
  const body = await buffer(inbound)
  const statement = searchParams.has('query') ? '' : body.toString('utf8')
  const onCluster = / ON CLUSTER '\w+'/
  if (onCluster.test(statement)) {
    to.statements.push(statement)
    const answer = await runOnAll(statement, searchParams, to)
    outbound.writeHead(answer.status, answer.headers).end(answer.text)
    return
  }
  const answer = await fetch(`http://127.0.0.1:${first.httpPort}${pathname}${search}`, {
    method: inbound.method ?? 'GET',
    headers: toHeaders(inbound),
    body: inbound.method === 'GET' ? null : body,
  })
  outbound.writeHead(answer.status, keepAnswerHeaders(answer.headers))
  for await (const chunk of answer.body ?? []) outbound.write(chunk)
  outbound.end()
}

async function runOnAll(statement: string, searchParams: URLSearchParams, { nodes, password, isReplicated }: Passing) {
  const parsed = await ask(nodes[0] as Node, password, new URLSearchParams(), `EXPLAIN AST ${statement}`)
  if (parsed.status !== 200) return parsed
  const alone = statement.replace(/ ON CLUSTER '\w+'/, '')
  // The record of migrations takes rows, which a read-only replica does not.
  const keepsReplication = isReplicated && !alone.includes('svc_migrations')
  const own = keepsReplication
    ? alone
    : alone.replace(/Replicated(\w*MergeTree)\('[^']*', '[^']*\{replica\}'(, )?/, '$1(')
  // Read-only replicas take no changes: those are parsed, and no more.
  if (isReplicated && alone.startsWith('ALTER')) return { ...parsed, text: '' }
  let answer = parsed
  for (const node of nodes) {
    answer = await ask(node, password, searchParams, own)
    if (answer.status !== 200) return answer
  }
  return answer
}

async function ask({ httpPort }: Node, password: string, searchParams: URLSearchParams, sql: string) {
  const answer = await fetch(`http://127.0.0.1:${httpPort}/?${searchParams}`, {
    method: 'POST',
    headers: { 'x-clickhouse-user': 'svc', 'x-clickhouse-key': password },
    body: sql,
  })
  return { status: answer.status, text: await answer.text(), headers: keepAnswerHeaders(answer.headers) }
}

function toHeaders({ headers }: IncomingMessage): Record<string, string> {
  const kept = [
    'authorization',
    'content-encoding',
    'content-type',
    'accept-encoding',
    'x-clickhouse-user',
    'x-clickhouse-key',
  ]
  return Object.fromEntries(kept.flatMap((it) => (typeof headers[it] === 'string' ? [[it, headers[it]]] : [])))
}

const keepAnswerHeaders = (headers: Headers) =>
  Object.fromEntries([...headers].filter(([name]) => name.startsWith('x-clickhouse') || name === 'content-type'))

function toConfig(of: {
  nodes: Node[]
  shard: number
  password: string
  usersFile: string
  keeperPort: number | undefined
}): string {
  const shards = of.nodes.map(
    ({ tcpPort }) => `<shard><internal_replication>true</internal_replication><replica>
      <host>127.0.0.1</host><port>${tcpPort}</port><user>svc</user><password>${of.password}</password></replica></shard>`,
  )
  const keeper =
    of.keeperPort === undefined
      ? ''
      : `<zookeeper><node><host>127.0.0.1</host><port>${of.keeperPort}</port></node></zookeeper>`
  return `<clickhouse>
  <users_config>${of.usersFile}</users_config>
  <timezone>UTC</timezone>
  <tcp_port>${of.nodes[of.shard - 1]?.tcpPort}</tcp_port>
  <macros><shard>${of.shard}</shard><replica>a</replica></macros>
  <remote_servers><${cluster}>${shards.join('\n')}</${cluster}></remote_servers>
  ${keeper}
  <max_server_memory_usage>${1024 ** 3}</max_server_memory_usage>
  <mark_cache_size>${64 * 1024 ** 2}</mark_cache_size>
  <background_pool_size>4</background_pool_size>
  <keep_alive_timeout>30</keep_alive_timeout>
  <shutdown_wait_unfinished>1</shutdown_wait_unfinished>
  <shutdown_wait_unfinished_queries>0</shutdown_wait_unfinished_queries>
</clickhouse>
`
}
