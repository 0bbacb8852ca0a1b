import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import { experimentKey, int64, list, object, optional, pageFields, text } from '../../http/body/fields.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { listMedia, listMediaNames, listMediaSteps, mediaKinds } from '../../store/postgres/assets/media.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { listChartExperiments } from '../../store/postgres/experiments/chart-experiments.ts'
import { toViewer } from '../access.ts'
import { assetAnswer, toAssetAnswer } from './answer.ts'
import { assetTopic } from './assets.ts'

const experimentsMax = 1_000
const pageSizeMax = 1_000
const pageSizeDefault = 100
const stepsMax = 100_000

const kind = optional(z.enum(mediaKinds, `must be one of ${mediaKinds.join(', ')}`))
const name = optional(text(1_000)).describe('as /experiments/media/names has it')

const ofRuns = { experimentKeys: list(experimentKey, experimentsMax), kind, name }
const nextPage = z.string().nullable().describe('the `page` to request next; null: this was the last one')

const mediumAnswer = assetAnswer.extend({
  kind: z.enum(mediaKinds),
  name: z.string().describe('the file name, or the type where the client or the service made a random name'),
  contentType: z.string(),
  epoch: z.int().nullable(),
})

type Deps = { reads: Queries; appUrl: string }

/** What people look at or listen to, of one run or of several. */
export function createMediaRoutes({ reads, appUrl }: Deps): Route[] {
  async function findExperiments(caller: Caller, keys: string[]) {
    const found = await listChartExperiments(reads, toViewer(caller), [...new Set(keys)], [])
    const order = new Map(keys.map((key, at) => [key, at]))
    found.sort((a, b) => (order.get(a.key) ?? 0) - (order.get(b.key) ?? 0))
    return new Map(found.map((it) => [it.id, it.key]))
  }

  const names = route({
    method: 'POST',
    path: '/experiments/media/names',
    charge: 'none',
    permission: 'reader',
    topic: assetTopic,
    summary:
      'Lists the media of experiments by kind and name, a page at a time: how many there are of each and over which steps. ' +
      'Experiments that this key may not see are left out.',
    body: object({
      ...ofRuns,
      search: optional(text(1_000)).describe('a part of the name, in any case'),
      ...pageFields(pageSizeMax),
    }),
    answer: z.object({
      names: z.array(
        z.object({
          kind: z.enum(mediaKinds),
          name: z.string(),
          count: z.int(),
          experiments: z.int().describe('how many experiments have it'),
          steps: z.int().describe('how many different steps'),
          firstStep: z.int().nullable(),
          lastStep: z.int().nullable(),
        }),
      ),
      total: z.int(),
      nextPage,
    }),
    shape: 'plain',
    async handle({ body: { experimentKeys, search = '', page = '0', pageSize = pageSizeDefault, ...wanted }, caller }) {
      const experimentIds = [...(await findExperiments(caller, experimentKeys)).keys()]
      const skip = Number(page)
      const found = await listMediaNames(reads, { ...wanted, experimentIds, search, skip, limit: pageSize })
      return {
        names: found.names.map((it) => ({
          ...it,
          firstStep: it.firstStep === null ? null : toJsonInteger(it.firstStep),
          lastStep: it.lastStep === null ? null : toJsonInteger(it.lastStep),
        })),
        total: found.total,
        nextPage: toNextPage(skip, found.names.length, found.total),
      }
    },
  })

  const steps = route({
    method: 'POST',
    path: '/experiments/media/steps',
    charge: 'none',
    permission: 'reader',
    topic: assetTopic,
    summary: `Lists the steps at which experiments have media, rising; the first ${stepsMax.toLocaleString('en')} if there are more.`,
    body: object(ofRuns),
    answer: z.object({
      steps: z.array(z.int()),
      total: z.int(),
      truncated: z.boolean().describe('true: there are more steps than were answered'),
    }),
    shape: 'plain',
    async handle({ body: { experimentKeys, ...wanted }, caller }) {
      const experimentIds = [...(await findExperiments(caller, experimentKeys)).keys()]
      const found = await listMediaSteps(reads, { ...wanted, experimentIds, limit: stepsMax })
      return {
        steps: found.steps.map(toJsonInteger),
        total: found.total,
        truncated: found.total > found.steps.length,
      }
    },
  })

  const items = route({
    method: 'POST',
    path: '/experiments/media',
    charge: 'none',
    permission: 'reader',
    topic: assetTopic,
    summary:
      'Lists media of experiments by kind, name and step, a page at a time: images, audio, video, texts, HTML, tables, ' +
      'curves, histograms, confusion matrices, points and embeddings. Plain files count by their content type. ' +
      'Experiments that this key may not see are left out.',
    body: object({
      ...ofRuns,
      at: optional(int64).describe('only the newest of each experiment and name until this step'),
      from: optional(int64).describe('the first step, inclusive; those without a step are left out'),
      to: optional(int64).describe('the last step, inclusive; those without a step are left out'),
      ...pageFields(pageSizeMax),
    }),
    answer: z.object({ media: z.array(mediumAnswer), total: z.int(), nextPage }),
    shape: 'plain',
    async handle({ body: { experimentKeys, page = '0', pageSize = pageSizeDefault, ...wanted }, caller }) {
      const experiments = await findExperiments(caller, experimentKeys)
      const skip = Number(page)
      const experimentIds = [...experiments.keys()]
      const { media, total } = await listMedia(reads, { ...wanted, experimentIds, skip, limit: pageSize })
      return {
        media: media.map((it) => ({
          ...toAssetAnswer(it, { experimentKey: experiments.get(it.experimentId) as string, appUrl }),
          kind: it.kind,
          name: it.name,
          contentType: it.contentType,
          epoch: it.epoch === null ? null : toJsonInteger(it.epoch),
        })),
        total,
        nextPage: toNextPage(skip, media.length, total),
      }
    },
  })

  return [names, steps, items]
}

/** The `page` after a page that skipped so many and has so many. */
export function toNextPage(skipped: number, answered: number, total: number): string | null {
  return answered > 0 && skipped + answered < total ? String(skipped + answered) : null
}
