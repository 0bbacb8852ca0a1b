/** This machine cannot run an embedded store at all; the message says which setting to give instead. */
export class EmbeddedStoreUnavailable extends Error {
  override name = 'EmbeddedStoreUnavailable'
}

/** The platform as the messages name it, such as `linux-x64` or `linux-x64 (musl)`. */
export function platformName(): string {
  const name = `${process.platform}-${process.arch}`
  if (process.platform !== 'linux') return name
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } }
  return report.header?.glibcVersionRuntime ? name : `${name} (musl)`
}
