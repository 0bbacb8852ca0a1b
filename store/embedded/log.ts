/** What the embedded stores write to; a pino logger fits. */
export type Log = Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>
