import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import type { Asset } from '../../store/postgres/assets/assets.ts'

export const assetAnswer = z.object({
  assetId: z.string(),
  fileName: z.string(),
  fileSize: z.int(),
  runContext: z.string().nullable(),
  step: z.int().nullable(),
  remote: z.boolean(),
  link: z.string().describe('the address of its bytes'),
  dir: z.string(),
  type: z.string(),
  metadata: z.string().nullable().describe('byte for byte as it was sent'),
  tags: z.array(z.string()),
  createdAt: z.int().describe('ms since the Unix epoch'),
  canView: z.boolean(),
  image: z.boolean(),
  audio: z.boolean(),
  video: z.boolean(),
  histogram: z.boolean(),
  curlDownload: z.string(),
  experimentKey: z.string(),
  compressedAssetLink: z.null(),
  s3Link: z.null(),
})

type Context = {
  experimentKey: string
  appUrl: string
  /** The registered version that has the asset: its bytes are read there, even after the experiment is deleted. */
  registryModelItemId?: string
}

export function toAssetAnswer(asset: Asset, context: Context): z.input<typeof assetAnswer> {
  const { experimentKey } = context
  const link = asset.link ?? toLink(asset, context)
  const image = asset.type === 'image'
  const audio = asset.type === 'audio'
  const video = asset.type === 'video'
  return {
    assetId: asset.id,
    fileName: asset.fileName,
    fileSize: toJsonInteger(asset.size),
    runContext: asset.context,
    step: asset.step === null ? null : toJsonInteger(asset.step),
    remote: asset.link !== null,
    link,
    dir: toFolder(asset),
    type: asset.type,
    metadata: asset.metadata,
    tags: asset.tags,
    createdAt: toJsonInteger(asset.createdAtMs),
    canView: image || audio || video,
    image,
    audio,
    video,
    histogram: asset.type.startsWith('histogram'),
    curlDownload: `curl ${quote(link)} -H "Authorization: <Your API Key>" > ${quote(asset.fileName.split('/').at(-1) ?? '')}`,
    experimentKey,
    compressedAssetLink: null,
    s3Link: null,
  }
}

/**
 * Some clients take only the experiment key out of a link, and read the file with `/experiment/asset/get-asset`. The experiment
 * may have another file by then, or be gone, so a link to a file of a registered version has this and the version there.
 */
export const versionPrefix = 'version:'

function toLink({ id: assetId }: Asset, { experimentKey, appUrl, registryModelItemId: modelItemId }: Context): string {
  const [path, query] = modelItemId
    ? ['registry-model/item/get-asset', { modelItemId, assetId, experimentKey: versionPrefix + modelItemId }]
    : ['experiment/asset/get-asset', { experimentKey, assetId }]
  return `${appUrl}/api/rest/v2/${path}?${new URLSearchParams(query)}`
}

/** Quotes for a shell: a file name must not run commands. */
const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** The folder that shows an asset: its model, the folder in its name, or the one for its type. */
export function toFolder({ groupingName, type, fileName }: Asset): string {
  if (type === 'model-element' && groupingName !== null) return `models/${groupingName}`
  const folder = fileName.split('/').slice(0, -1).join('/')
  return folder || 'others'
}
