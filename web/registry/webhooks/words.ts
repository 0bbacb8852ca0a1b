/** The part of an address that names the receiver. */
export const toHost = (url: string) => (URL.canParse(url) ? new URL(url).host : url)

/** `MODEL_VERSION_STAGE_CHANGED` as words: `version stage changed`. */
export const toWords = (trigger: string) =>
  trigger.toLowerCase().replaceAll('_', ' ').replace('model version', 'version')
