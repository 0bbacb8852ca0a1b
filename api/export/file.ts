import { create as toDisposition } from 'content-disposition'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { optional } from '../../http/body/fields.ts'
import { exportFormats, formats } from '../../store/clickhouse/export/formats.ts'

/** The format that a caller asks for. */
export const format = optional(z.enum(exportFormats, `expected one of ${exportFormats.join(', ')}`)).describe(
  'default parquet; arrow is a stream of record batches',
)

/** The headers of a file with this name. */
export function describeFile(reply: FastifyReply, name: string, format: keyof typeof formats) {
  const { contentType, extension } = formats[format]
  reply.headers({
    'content-type': contentType,
    'content-disposition': toDisposition(`${name.replaceAll(/[/\\]/g, '_')}.${extension}`),
  })
}
