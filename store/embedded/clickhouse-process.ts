/**
 * The child process of ClickHouse: `node clickhouse-process.ts LIBRARY PROTOCOL[,PROTOCOL] OPTION...`. Its last query reads stdin, so it
 * blocks until the parent closes stdin or dies; then the engine shuts down. See engine.ts.
 */
import { DataType, isNullPointer, load, open } from 'ffi-rs'

const [library = '', protocols = '', ...options] = process.argv.slice(2)
const listen = protocols.split(',').map((it) => `SYSTEM START LISTEN ${it};`)
const queries = `CREATE DATABASE IF NOT EXISTS svc; ${listen.join(' ')} SELECT * FROM file('-', 'LineAsString')`
// No "local" in front: chdb_query_cmdline adds it.
const argv = ['clickhouse', ...options, '--query', queries]

// A service manager may signal every process of the service. The child must run until the parent has drained.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})

process.stdout.write(`${process.pid}\n`)
open({ library: 'chdb', path: library })
const result = await load({
  library: 'chdb',
  funcName: 'chdb_query_cmdline',
  retType: DataType.External,
  paramsType: [DataType.I32, DataType.StringArray],
  paramsValue: [argv.length, argv],
  // On another thread: the engine checks the bounds of its stack, and the main thread stays free for signals.
  runInNewThread: true,
})
if (isNullPointer(result)) fail('the engine returned no result')
const readError = { library: 'chdb', funcName: 'chdb_result_error', paramsType: [DataType.External] }
const error = load({ ...readError, retType: DataType.External, paramsValue: [result] })
if (!isNullPointer(error)) fail(load({ ...readError, retType: DataType.String, paramsValue: [result] }))
process.exit(0)

function fail(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}
