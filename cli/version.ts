import packageFile from '../package.json' with { type: 'json' }

/** The version of svc, as package.json has it. */
export const version: string = packageFile.version
