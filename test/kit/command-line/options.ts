import { writeFile } from 'node:fs/promises'
import type { QueueKind } from '../service.ts'
import { hasRedisServer } from '../stores/redis.ts'

/** @throws Error that names the option */
export function readNumber(name: string, text: string, least: number): number {
  const value = Number(text)
  if (text !== '' && value >= least) return value
  throw new Error(`--${name} must be a number from ${least}.`)
}

/** @throws Error that names the option */
export function readWholeNumber(name: string, text: string, least: number): number {
  const value = Number(text)
  if (text !== '' && Number.isInteger(value) && value >= least) return value
  throw new Error(`--${name} must be a whole number from ${least}.`)
}

/** The given queue; without one, Redis if it is installed. */
export function chooseQueue(given: string | undefined): QueueKind {
  if (given === 'postgres') return given
  if (given !== undefined && given !== 'redis') throw new Error('--queue must be redis or postgres.')
  if (given === 'redis' && !hasRedisServer()) throw new Error('There is no redis-server on the PATH.')
  return hasRedisServer() ? 'redis' : 'postgres'
}

export async function writeJson(file: string | undefined, result: unknown): Promise<void> {
  if (file !== undefined) await writeFile(file, `${JSON.stringify(result, null, 2)}\n`)
}
