/** The log of the embedded stores, such as a pino logger. */
export type Log = Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>
