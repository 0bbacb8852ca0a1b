import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createClosers } from '../runtime/closers.ts'
import { readNumbers, runCommand, say } from './command.ts'
import { type Measured, measure } from './contenders/contender.ts'
import { scenarios } from './contenders/scenarios.ts'
import { openService } from './contenders/service.ts'
import { openBenchStores } from './contenders/stores.ts'
import { drawFlameGraph } from './report/flame.ts'
import { type Frame, type ProcessProfile, readProfiles, sumBy } from './report/profile.ts'
import { median } from './report/report.ts'
import { describeMachine, resultsFolder } from './report/results.ts'

/**
 * `npm run bench:profile`: shows where CPU time goes. Runs scenarios with Node's profiler, draws a flame graph of each
 * process into `bench/profiles/`, and writes a table into `bench/README.md` between its markers.
 */
const usage = `Usage: npm run bench:profile -- [--rounds N] [--seconds N] [--fsync always|everysec] [single rows columns ...]\n`

const flamesFolder = fileURLToPath(new URL('./profiles/', import.meta.url))
const readme = new URL('./README.md', import.meta.url)
const markers = { begin: '<!-- profile: npm run bench:profile -->', end: '<!-- /profile -->' }
/** Entries below this share of a point are summed up as others. */
const shareLeast = 0.01

await runCommand(async (closers) => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '5' },
      fsync: { type: 'string', default: 'always' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const { rounds, seconds, fsync } = readNumbers(values)
  const names = positionals.length > 0 ? positionals : ['single', 'rows', 'columns']
  const chosen = names.map((name) => scenarios.find((it) => it.name === name && it.target === 'service'))
  if (chosen.some((it) => !it)) throw new Error(`There is no such scenario of the service.\n${usage}`)
  say('Starting the stores')
  const stores = await openBenchStores(closers, fsync)
  const queue = stores.urls.redisUrl ? 'redis' : 'postgres'
  const tables: string[] = []
  await mkdir(flamesFolder, { recursive: true })
  for (const scenario of chosen) {
    if (!scenario) continue
    const profileFolder = path.join(resultsFolder, 'profiles', `${scenario.name}-${queue}`)
    const closersOfRun = createClosers()
    closers.push(() => closersOfRun.closeAll())
    let measured: Measured | undefined
    try {
      const contender = await openService({
        scenario,
        queue,
        stores,
        roundsInAll: rounds + 1,
        secondsInAll: (rounds + 1) * seconds,
        profileFolder,
        closers: closersOfRun,
        progress: (text) => say(`${scenario.name}: ${text}`),
      })
      measured = (await measure({ contenders: [contender], rounds, seconds, progress: say }))[0]
    } finally {
      // A process writes its profile when it exits.
      await closersOfRun.closeAll()
    }
    if (!measured) continue
    const profiles = await readProfiles(profileFolder, measured)
    for (const profile of profiles) {
      const file = path.join(flamesFolder, `${scenario.name}-${profile.process}.svg`)
      const micros = `${profile.microsPerPoint.toFixed(2)} µs of CPU a point`
      await writeFile(file, drawFlameGraph(`${scenario.about}: ${profile.process}, ${micros}`, profile))
      say(`Drawn ${path.relative(process.cwd(), file)}`)
    }
    tables.push(renderTable(measured, profiles, scenario.about))
  }
  const how = queue === 'redis' ? `Redis \`appendfsync ${fsync}\`` : 'queue in Postgres'
  const run = `_${describeMachine()}; ${how}; ${rounds} rounds of ${seconds} s with the profiler on, ${new Date().toISOString().slice(0, 10)}_`
  const text = [run, ...tables].join('\n\n')
  process.stdout.write(`\n${text}\n`)
  await writeBetweenMarkers(text)
})

function renderTable(measured: Measured, profiles: ProcessProfile[], about: string): string {
  const byProcess = new Map(
    Object.keys(measured.rounds[0]?.cpuMicros ?? {}).map((name) => [
      name,
      median(measured.rounds.map((it) => it.cpuMicros?.[name] ?? 0)),
    ]),
  )
  const all = [...byProcess.values()].reduce((sum, it) => sum + it, 0)
  const rows = [...byProcess].flatMap(([process, micros]): [string, string, number][] => {
    const profile = profiles.find((it) => it.process === process)
    return profile ? shareOut(profile, all) : [[process, 'the whole process', micros]]
  })
  const lines = rows
    .filter(([, , micros]) => micros >= all / 1_000)
    .map(
      ([process, where, micros]) =>
        `| ${process} | ${where} | ${toText(micros)} | ${((micros / all) * 100).toFixed(1)} % |`,
    )
  const { scenario } = measured
  const flames = profiles.map(({ process }) => `[${process}](profiles/${scenario}-${process}.svg)`).join(', ')
  return [
    `**${scenario}** (${about}): ${toText(all)} µs of CPU a point; flame graphs: ${flames}\n`,
    '| process | where | µs/point | share |',
    '| --- | --- | ---: | ---: |',
    ...lines,
  ].join('\n')
}

/** Distributes the measured microseconds of a process by where its samples were taken. */
function shareOut({ process, microsPerPoint, root }: ProcessProfile, all: number): [string, string, number][] {
  const parts = [...sumBy(root, toPlace)]
    .map(([where, micros]): [string, string, number] => [process, where, (micros / root.totalMicros) * microsPerPoint])
    .toSorted((a, b) => b[2] - a[2])
  const large = parts.filter(([, , micros]) => micros >= all * shareLeast)
  const rest = parts.slice(large.length).reduce((sum, [, , micros]) => sum + micros, 0)
  return [...large, [process, `${parts.length - large.length} others`, rest]]
}

function toPlace({ file, name }: Frame): string {
  if (file === '(garbage collector)') return 'garbage collector'
  if (file === 'native') {
    if (name === '(program)') return 'outside of JavaScript: the event loop, system calls'
    return name.startsWith('RegExp: ') ? 'regular expressions' : 'native functions: sockets, buffers, JSON'
  }
  if (file.startsWith('node:')) return 'Node’s own JavaScript: HTTP, streams, timers'
  return file.includes('/') && !file.startsWith('@') ? `\`${file}\`` : `package \`${file}\``
}

function toText(micros: number): string {
  return micros < 10 ? micros.toFixed(2) : micros.toFixed(1)
}

async function writeBetweenMarkers(text: string) {
  const whole = await readFile(readme, 'utf8')
  const [begin, end] = [whole.indexOf(markers.begin), whole.indexOf(markers.end)]
  if (begin < 0 || end < begin) throw new Error(`bench/README.md has no ${markers.begin} ... ${markers.end}.`)
  const from = begin + markers.begin.length
  await writeFile(readme, `${whole.slice(0, from)}\n\n${text}\n\n${whole.slice(end)}`)
  say('Written into bench/README.md')
}
