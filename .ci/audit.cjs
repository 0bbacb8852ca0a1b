#!/usr/bin/env node
/**
 * Looks up known holes of the npm packages that the lock file installs for production, in the database of the registry. Exit code 1 when
 * one is of severity "high" or "critical" and not in `.ci/audit-exceptions.json`, or an exception there has ended. Where no database
 * can be reached it says so and ends with 0: the same sources must not fail for the network they are checked in.
 *
 * An exception is `{ "advisory": "GHSA-...", "reason": "...", "until": "2026-12-31" }`; its last day counts.
 */
'use strict'

const { spawnSync } = require('node:child_process')
const { readFileSync } = require('node:fs')
const path = require('node:path')

const root = path.resolve(__dirname, '..')
const failing = new Set(['high', 'critical'])
const waitMsMax = 120_000

const file = process.argv[2] ?? path.join(__dirname, 'audit-exceptions.json')
const exceptions = JSON.parse(readFileSync(file, 'utf8'))
for (const it of exceptions) {
  const isWhole = it.advisory && it.reason && /^\d{4}-\d{2}-\d{2}$/.test(it.until)
  if (!isWhole) end(1, `${file}: each exception needs advisory, reason and until (a day): ${JSON.stringify(it)}`)
}

const options = ['audit', '--json', '--omit=dev', '--package-lock-only', '--fetch-retries=1', '--fetch-timeout=30000']
const { stdout, error } = spawnSync('npm', options, {
  cwd: root,
  encoding: 'utf8',
  timeout: waitMsMax,
  maxBuffer: 64 * 1024 ** 2,
  stdio: ['ignore', 'pipe', 'ignore'],
})
const report = parse(stdout)
if (error || !report?.vulnerabilities) {
  const why = error?.message ?? report?.message ?? report?.error?.summary ?? 'no answer'
  end(
    0,
    `No database of known holes can be reached from here, so no dependency was checked (${why.trim().split('\n')[0]}).`,
  )
}

/** Packages that only depend on one with a hole name that package instead of an advisory. */
const holes = new Map()
for (const { name, via } of Object.values(report.vulnerabilities)) {
  for (const it of via) if (typeof it === 'object') holes.set(toId(it), { name: it.name ?? name, ...it })
}
const today = new Date().toISOString().slice(0, 10)
let failures = 0
for (const [id, { name, severity, title, range }] of holes) {
  const exception = exceptions.find((it) => it.advisory === id)
  const isAllowed = exception !== undefined && exception.until >= today
  const isFailure = failing.has(severity) && !isAllowed
  if (isFailure) failures++
  const note =
    exception &&
    (isAllowed ? `allowed until ${exception.until}: ${exception.reason}` : `the exception ended on ${exception.until}`)
  console.log(
    `${isFailure ? 'FAILS' : 'known'}  ${severity}  ${name} ${range}  ${id}  ${title}${note ? `  (${note})` : ''}`,
  )
}
for (const it of exceptions)
  if (!holes.has(it.advisory)) console.log(`The exception ${it.advisory} is of no use any more: remove it.`)
const counted = report.metadata?.dependencies?.prod ?? 'all'
end(failures > 0 ? 1 : 0, `${counted} production dependencies: ${holes.size} known holes, ${failures} fail the check.`)

function toId({ url, source }) {
  return /GHSA-[\w-]+/.exec(url ?? '')?.[0] ?? String(source)
}

function parse(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function end(code, message) {
  console.log(message)
  process.exit(code)
}
