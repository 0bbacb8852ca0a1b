import { z } from 'zod'
import { HttpError } from '../../http/errors.ts'
import type { Between } from '../../store/clickhouse/export/rows.ts'

/** A part of an export: what was accepted until a time, between two places. */
export type Part = { untilMs: number; between: Between }

const place = z.tuple([z.string().regex(/^\d{1,19}$/), z.string(), z.string()])
const written = z.tuple([z.int(), place, place])

/** A part as text, which a caller sends back unread. */
export function toPartId({ untilMs, between }: Part): string {
  const [from, to] = [between.from, between.to].map(({ id, metric, context }) => [String(id), metric, context])
  return Buffer.from(JSON.stringify([untilMs, from, to])).toString('base64url')
}

/** @throws HttpError `badRequest` when it is not the part of a manifest */
export function parsePartId(id: string): Part {
  const [untilMs, from, to] = parse(id)
  return { untilMs, between: { from: toPlace(from), to: toPlace(to) } }
}

function parse(id: string): z.output<typeof written> {
  try {
    return written.parse(JSON.parse(Buffer.from(id, 'base64url').toString()))
  } catch {
    throw new HttpError('badRequest', 'part: expected a part of /export/manifest')
  }
}

const toPlace = ([id, metric, context]: [string, string, string]) => ({ id: BigInt(id), metric, context })
