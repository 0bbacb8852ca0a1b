import { queryOptions } from '@tanstack/react-query'
import { post, read, toAddress } from '../http.ts'

export const mediaKinds = [
  ...(['image', 'audio', 'video', 'text', 'html', 'table', 'curve', 'histogram'] as const),
  ...(['confusion-matrix', 'points', 'embedding'] as const),
] as const

export type MediaKind = (typeof mediaKinds)[number]

/** Media of one kind and name, over all steps of some runs. */
export type MediaName = {
  kind: MediaKind
  name: string
  count: number
  experiments: number
  steps: number
  firstStep: number | null
  lastStep: number | null
}

export type Medium = {
  assetId: string
  experimentKey: string
  kind: MediaKind
  name: string
  fileName: string
  fileSize: number
  contentType: string
  runContext: string | null
  step: number | null
  epoch: number | null
  metadata: string | null
  remote: boolean
  link: string
  createdAt: number
}

/** All reads of one run are below its key, so that they are read again while it goes on. */
export const mediaKey = (keys: string[], ...rest: unknown[]) =>
  keys.length === 1 ? ['run', keys[0], 'media', ...rest] : ['media', keys, ...rest]

type NamesAsked = { experimentKeys: string[]; kind?: MediaKind; search?: string; page?: string; pageSize?: number }

export const readMediaNames = (asked: NamesAsked, signal?: AbortSignal) =>
  post<{ names: MediaName[]; total: number; nextPage: string | null }>('/experiments/media/names', asked, { signal })

export const mediaSteps = (experimentKeys: string[]) =>
  queryOptions({
    queryKey: mediaKey(experimentKeys, 'steps'),
    queryFn: ({ signal }) =>
      post<{ steps: number[]; total: number; truncated: boolean }>(
        '/experiments/media/steps',
        { experimentKeys },
        { signal },
      ),
  })

type MediaAsked = {
  experimentKeys: string[]
  kind: MediaKind
  name: string
  at?: number
  page?: string
  pageSize?: number
}

export const readMedia = (asked: MediaAsked, signal?: AbortSignal) =>
  post<{ media: Medium[]; total: number; nextPage: string | null }>('/experiments/media', asked, { signal })

/** The HTML that a run has logged by itself; null when there is none. */
export const runHtml = (experimentKey: string) =>
  queryOptions({
    queryKey: ['run', experimentKey, 'html'],
    queryFn: async ({ signal }) =>
      (await read<{ html: string | null }>('/experiment/html', { experimentKey }, { signal })).html,
  })

export const htmlPageUrl = (experimentKey: string) => toAddress('/experiment/html/page', { experimentKey })
