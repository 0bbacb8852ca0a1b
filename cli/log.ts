import { type Logger, pino } from 'pino'

/** The log of a process: one JSON object a line on standard output. Keys and secrets are never put into it. */
export function openLog(level: string, name: string): Logger {
  return pino({ level, base: { role: name }, redact: ['req.headers.authorization'] })
}
