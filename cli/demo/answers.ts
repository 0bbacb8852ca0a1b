import { z } from 'zod'

// What the demo expects in the service's answers; further fields are welcome and ignored.

export const accountAnswer = z.object({ defaultWorkspaceName: z.string() })

export const createdAnswer = z.object({
  experimentKey: z.string(),
  workspaceName: z.string(),
  projectName: z.string(),
  link: z.string(),
})

export const savedAnswer = z.object({ code: z.literal(200) })

export const assetAnswer = z.object({ assetId: z.string() })

export const artifactAnswer = z.object({ artifactVersionId: z.string() })

export const versionAnswer = z.object({ version: z.string() })

export const batchAnswer = savedAnswer.extend({
  accepted: z.number(),
  rejected: z.array(z.object({ index: z.number(), msg: z.string() })).nullish(),
  throttled: z.number().nullish(),
})

export const statusAnswer = z.object({
  isAliveBeatDurationMillis: z.number(),
  cpuMonitorIntervalMillis: z.number(),
  stopRequested: z.boolean().nullish(),
})

export const metadataAnswer = z.object({
  experimentName: z.unknown().optional(),
  workspaceName: z.unknown().optional(),
  projectName: z.unknown().optional(),
  startTimeMillis: z.unknown().optional(),
  endTimeMillis: z.unknown().optional(),
  archived: z.unknown().optional(),
  running: z.unknown().optional(),
  throttle: z.unknown().optional(),
  throttleMessage: z.unknown().optional(),
})

export const summaryAnswer = z.object({
  values: z.array(
    z.object({
      name: z.string(),
      valueMin: z.unknown().optional(),
      valueMax: z.unknown().optional(),
      valueCurrent: z.unknown().optional(),
    }),
  ),
})

export const metricAnswer = z.object({
  metrics: z.array(
    z.object({
      metricValue: z.unknown().optional(),
      timestamp: z.coerce.number(),
      step: z.coerce.number().nullish(),
      epoch: z.coerce.number().nullish(),
      runContext: z.string().nullish(),
    }),
  ),
})

export const tagsAnswer = z.object({ tags: z.array(z.string()) })

export const outputAnswer = z.object({ output: z.string() })

export type Summary = z.infer<typeof summaryAnswer>
export type ReadPoint = z.infer<typeof metricAnswer>['metrics'][number]
