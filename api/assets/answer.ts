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
  metadata: z.string().nullable().describe('as it was sent, to the byte'),
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

type Place = {
  experimentKey: string
  appUrl: string
  /** The registered version that keeps it: its bytes are read there, whatever becomes of the experiment. */
  registryModelItemId?: string
}

export function toAssetAnswer(asset: Asset, place: Place): z.input<typeof assetAnswer> {
  const { experimentKey } = place
  const link = asset.link ?? toLink(asset, place)
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

function toLink({ id }: Asset, { experimentKey, appUrl, registryModelItemId }: Place): string {
  const [path, owner] = registryModelItemId
    ? ['registry-model/item/get-asset', { modelItemId: registryModelItemId }]
    : ['experiment/asset/get-asset', { experimentKey }]
  return `${appUrl}/api/rest/v2/${path}?${new URLSearchParams({ ...owner, assetId: id })}`
}

/** A line to paste into a shell must not do more than it says, whatever a file is called. */
const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** Where an asset is shown: with its model, in the folder that its name says, or among the others. */
export function toFolder({ groupingName, type, fileName }: Asset): string {
  if (type === 'model-element' && groupingName !== null) return `models/${groupingName}`
  const folder = fileName.split('/').slice(0, -1).join('/')
  return folder || 'others'
}
