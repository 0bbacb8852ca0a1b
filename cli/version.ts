import packageFile from '../package.json' with { type: 'json' }

/** The version of svc, from package.json. */
export const version: string = packageFile.version
