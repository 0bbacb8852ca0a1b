import { type Logger, pino } from 'pino'

/** The log of a process: JSON lines on standard output. Never log keys or secrets. */
export function openLog(level: string, name: string): Logger {
  return pino({ level, base: { role: name }, redact: ['req.headers.authorization'] })
}
