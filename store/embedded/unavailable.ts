/** This machine cannot run an embedded store. The message names the setting to use instead. */
export class EmbeddedStoreUnavailable extends Error {
  override name = 'EmbeddedStoreUnavailable'
}

/** The platform for messages, such as `linux-x64` or `linux-x64 (musl)`. */
export function platformName(): string {
  const name = `${process.platform}-${process.arch}`
  if (process.platform !== 'linux') return name
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } }
  return report.header?.glibcVersionRuntime ? name : `${name} (musl)`
}
