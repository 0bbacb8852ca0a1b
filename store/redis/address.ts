/**
 * The address of Redis: one server, a Redis Cluster, or Sentinels that know the server.
 *
 *     redis://user:password@host:6379/0                         one server; rediss:// for TLS
 *     redis+cluster://user:password@host-a:6379,host-b:6379     some nodes of a cluster
 *     redis+sentinel://user:password@host-a:26379,host-b:26379/0?master=mymaster&sentinelPassword=..
 */
export type RedisAddress = {
  kind: 'single' | 'cluster' | 'sentinel'
  nodes: { host: string; port: number }[]
  isTls: boolean
  username: string | undefined
  password: string | undefined
  database: number
  /** The name that the Sentinels use for the server. */
  master: string
  sentinelPassword: string | undefined
}

const redisAddressForms =
  'redis://host:6379, redis+cluster://host:6379,host:6379 or redis+sentinel://host:26379,host:26379?master=mymaster (rediss for TLS)'

const form = /^(rediss?)(?:\+(cluster|sentinel))?:\/\/(?:([^@/]*)@)?([^@/?#]+)(?:\/(\d*))?(?:\?([^#]*))?$/
const nodeForm = /^(\[[^\]]+\]|[^:[\]]+)(?::(\d{1,5}))?$/
const defaultPorts = { single: 6379, cluster: 6379, sentinel: 26_379 }

/** @throws Error that lists the valid forms */
export function parseRedisAddress(url: string): RedisAddress {
  const [, scheme, suffix, credentials = '', hosts = '', database, query] = form.exec(url) ?? []
  const kind = (suffix ?? 'single') as RedisAddress['kind']
  const nodes = hosts.split(',').map((it) => {
    const [, host, port] = nodeForm.exec(it.trim()) ?? []
    return { host: host?.replace(/^\[|\]$/g, '') ?? '', port: Number(port ?? defaultPorts[kind]) }
  })
  const isValid = scheme !== undefined && nodes.every((it) => it.host !== '' && it.port > 0 && it.port < 65_536)
  if (!isValid || (kind === 'single' && nodes.length > 1)) throw new Error(`must be ${redisAddressForms}`)
  const [username, password] = splitOnce(credentials).map((it) => decodeURIComponent(it))
  const parameters = new URLSearchParams(query)
  return {
    kind,
    nodes,
    isTls: scheme === 'rediss',
    username: username || undefined,
    password: password || undefined,
    database: Number(database || 0),
    master: parameters.get('master') ?? 'mymaster',
    sentinelPassword: parameters.get('sentinelPassword') ?? undefined,
  }
}

function splitOnce(text: string): [string, string] {
  const at = text.indexOf(':')
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

/** The hosts and ports of an address, without credentials. */
export function describeRedisAddress(url: string): string {
  return parseRedisAddress(url)
    .nodes.map((it) => `${it.host}:${it.port}`)
    .join(',')
}
