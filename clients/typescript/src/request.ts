/** The path of a file, or what is in it. */
export type AssetFile = string | Uint8Array | Blob

/**
 * What is sent to the service, as plain data: the process that has logged it sends it, or at its end another one. It stays
 * the same however often it is sent; the keys are those by which the service knows it again.
 */
export type Request =
  | { kind: 'create'; fields: Record<string, string>; workspaceName: string | undefined }
  | { kind: 'json'; path: string; body: string; key: string }
  | {
      kind: 'events'
      model: Record<string, string | undefined>
      workspaceName: string | undefined
      /** Fields of each event, as JSON without its braces. */
      events: string[]
    }
  | {
      kind: 'upload'
      query: Record<string, string>
      name: string
      file: AssetFile
      fields: Record<string, string>
      key: string
    }
