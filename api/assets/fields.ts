import { indexedText, text } from '../../http/body/fields.ts'

/** The fields of assets, in requests. */

export const tagsMax = 1_000

export const assetFields = {
  type: indexedText(200).describe('image, model-element, curve, ..., or any other text'),
  fileName: indexedText(1_000),
  metadata: text(1_000_000).describe('kept byte for byte'),
  context: text(1_000),
  groupingName: indexedText(1_000).describe('with type model-element: the model of the file'),
  artifactVersionId: text(100),
  link: text(10_000, 1).describe('the address of a remote asset'),
}

export const assetId = text(100, 1)
export const tag = text(500, 1)
