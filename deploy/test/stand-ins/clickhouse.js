// The real engine with its HTTP interface, as in store/embedded/, with the user and password from the variables of the official
// image. The engine ends when its stdin ends.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'

const { CLICKHOUSE_USER: user = 'default', CLICKHOUSE_PASSWORD: password = '' } = process.env
if (!/^\w+$/.test(user) || user === 'default') throw new Error('CLICKHOUSE_USER must be a name other than default')
const packages = '/app/node_modules/@chdb'
const library = `${packages}/${readdirSync(packages).find((it) => it.startsWith('lib-linux-'))}/libchdb.so`
const configFile = '/etc/stand-in/config.xml'
const usersFile = '/etc/stand-in/users.xml'

mkdirSync('/etc/stand-in', { recursive: true })
writeFileSync(
  configFile,
  `<clickhouse><users_config>${usersFile}</users_config><timezone>UTC</timezone>
  <background_pool_size>4</background_pool_size></clickhouse>`,
)
writeFileSync(
  usersFile,
  `<clickhouse>
  <users>
    <default><no_password/><networks><ip>::1</ip></networks><profile>session</profile><quota>default</quota></default>
    <${user}>
      <password_sha256_hex>${createHash('sha256').update(password).digest('hex')}</password_sha256_hex>
      <networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
      <access_management>1</access_management>
    </${user}>
  </users>
  <profiles><default/><session><max_sessions_for_user>1</max_sessions_for_user></session></profiles>
  <quotas><default/></quotas>
</clickhouse>`,
)
const engine = spawn(
  process.execPath,
  [
    '/app/store/embedded/clickhouse-process.ts',
    library,
    'HTTP',
    `--config-file=${configFile}`,
    '--path=/var/lib/clickhouse',
    '--listen_host=0.0.0.0',
    '--http_port=8123',
  ],
  { stdio: ['pipe', 'inherit', 'inherit'], env: { ...process.env, TZ: 'UTC', LC_ALL: 'C' } },
)
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => engine.stdin.end())
engine.on('exit', (code) => process.exit(code ?? 1))
