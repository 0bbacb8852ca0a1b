import { z } from 'zod'
import { expected, integerBetween, optional } from '../../http/body/fields.ts'
import type { ExperimentSort } from '../../store/postgres/experiments/experiments.ts'

const pageSizeMax = 10_000

const pageSize = optional(integerBetween(1, pageSizeMax))

/** Selects a page of experiments. Clients spell its size in three ways. */
export const pageFields = {
  page: optional(
    z
      .union([z.string(), z.int()], expected('a string'))
      .transform(String)
      .pipe(
        z
          .string()
          .regex(/^(after-\d{1,18}|\d{1,9})$/, 'expected a number from 1, or the nextPage of an earlier answer'),
      )
      .meta({ type: 'string' }),
  ),
  pageSize,
  size: pageSize,
  page_size: pageSize,
  sortBy: optional(z.enum(['startTime', 'endTime'], 'must be startTime or endTime')),
  sortOrder: optional(z.enum(['asc', 'desc'], 'must be asc or desc')),
}

export const pagesDescription =
  '`page` counts from 1; `nextPage` is the `page` to request next, or null. A page has `size` experiments (also `pageSize` ' +
  'or `page_size`).'

type Fields = { [Name in keyof typeof pageFields]?: z.infer<(typeof pageFields)[Name]> }

export type Page = { afterId: bigint; offset: number; limit: number; number: number; sort: ExperimentSort | undefined }

export function toPage({ page = '1', pageSize, size, page_size, sortBy, sortOrder = 'asc' }: Fields): Page {
  const limit = size ?? page_size ?? pageSize ?? pageSizeMax
  const afterId = /^after-(\d+)$/.exec(page)?.[1]
  // Some count from 0, and ask for the first page by both.
  const number = afterId === undefined ? Math.max(1, Number(page)) : 1
  return {
    afterId: BigInt(afterId ?? 0),
    offset: (number - 1) * limit,
    limit,
    number,
    sort: sortBy && { by: sortBy, isDescending: sortOrder === 'desc' },
  }
}

/** The page after one that is full: in the order they were made by the last experiment, which stays right while others come. */
export function toNextPage({ number, sort }: Page, last: { id: bigint } | undefined): string | null {
  if (sort) return String(number + 1)
  return last ? `after-${last.id}` : null
}
