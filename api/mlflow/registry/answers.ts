import { z } from 'zod'
import { toJsonInteger } from '../../../http/body/exact-json.ts'
import type { MlflowVersion } from '../../../store/postgres/mlflow/registry.ts'
import type { RegistryModel } from '../../../store/postgres/registry/models.ts'
import { parseMetadata } from '../../registry/metadata.ts'
import { pairAnswer, toPairs } from '../answers.ts'
import { allStages, toCurrentStage } from './stages.ts'

export const versionAnswer = z.object({
  name: z.string(),
  version: z.string(),
  creation_timestamp: z.int(),
  last_updated_timestamp: z.int(),
  user_id: z.string(),
  current_stage: z.string(),
  description: z.string(),
  source: z.string(),
  run_id: z.string().optional(),
  run_link: z.string().optional(),
  model_id: z.string().optional(),
  status: z.literal('READY'),
  tags: z.array(pairAnswer),
  aliases: z.array(z.string()),
})

export const modelAnswer = z.object({
  name: z.string(),
  creation_timestamp: z.int(),
  last_updated_timestamp: z.int(),
  user_id: z.string(),
  description: z.string(),
  latest_versions: z.array(versionAnswer),
  tags: z.array(pairAnswer),
  aliases: z.array(z.object({ alias: z.string(), version: z.string() })),
})

/** `N.0.0` is the version N. Others, of clients that chose them, are what they are. */
const toNumber = (version: string) => /^(\d+)\.0\.0$/.exec(version)?.[1] ?? version

export const toSemver = (given: string) => (/^\d+$/.test(given) ? `${BigInt(given)}.0.0` : given)

/** Where the files of a version are read, also after its experiment is deleted. */
export const toVersionUri = (versionId: string) => `mlflow-artifacts:/versions/${versionId}/artifacts`

/** Metadata that are texts are tags as they stand; others as JSON. */
function toTags(metadata: string): [string, string][] {
  return [...parseMetadata(metadata)].map(([key, json]) => [
    key,
    json.startsWith('"') ? (JSON.parse(json) as string) : json,
  ])
}

export function toVersion(version: MlflowVersion): z.input<typeof versionAnswer> {
  const { source, runLink, loggedModelId } = version
  const run = source === null ? version.experimentKey : version.sourceRun
  return {
    name: version.modelName,
    version: toNumber(version.version),
    creation_timestamp: toJsonInteger(version.createdAtMs),
    last_updated_timestamp: toJsonInteger(version.updatedAtMs),
    user_id: version.userName,
    current_stage: toCurrentStage(version.stages),
    description: version.comment,
    source: source ?? toVersionUri(version.id),
    ...(run !== null && { run_id: run }),
    ...(runLink !== null && { run_link: runLink }),
    ...(loggedModelId !== null && { model_id: loggedModelId }),
    status: 'READY',
    tags: toPairs(toTags(version.metadata)),
    aliases: version.aliases,
  }
}

export const toVersionTags = (version: MlflowVersion) => Object.fromEntries(toTags(version.metadata))

/** The highest version in each stage. Clients take these as numbers, so others are left out. @param versions in ascending order */
export function toLatest(versions: MlflowVersion[], stages: string[] = allStages): MlflowVersion[] {
  const numbered = versions.filter((it) => it.version !== toNumber(it.version))
  return stages.flatMap((stage) => numbered.findLast((it) => toCurrentStage(it.stages) === stage) ?? [])
}

type Of = {
  versions: MlflowVersion[]
  tags: { key: string; value: string }[]
  aliases: { alias: string; version: string }[]
}

export function toModel(model: RegistryModel, { versions, tags, aliases }: Of): z.input<typeof modelAnswer> {
  return {
    name: model.name,
    creation_timestamp: toJsonInteger(model.createdAtMs),
    last_updated_timestamp: toJsonInteger(model.updatedAtMs),
    user_id: model.userName,
    description: model.description,
    latest_versions: toLatest(versions).map(toVersion),
    tags: tags.map(({ key, value }) => ({ key, value })),
    aliases: aliases.map(({ alias, version }) => ({ alias, version: toNumber(version) })),
  }
}

/** Newer clients keep prompts as models of this tag. We keep none; their searches of models leave them out by it. */
export const ofPrompts = 'mlflow.prompt.is_prompt'

/** A tag as filters read it. */
export const readTag = (value: string | undefined, key: string) => value ?? (key === ofPrompts ? 'false' : undefined)
