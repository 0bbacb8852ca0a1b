import { parseSettings } from '../settings.ts'
import { describeTerminal } from '../terminal/terminal.ts'
import { type About, chapters, fields } from './schema.ts'

/**
 * Prints every setting with its present value, without secrets; or, as Markdown, the page of all settings.
 *
 * @throws Error that lists every wrong setting, after the table
 */
export function settings({ markdown }: { markdown: boolean }): void {
  if (markdown) return void process.stdout.write(describeSettings())
  process.stdout.write(listPresent(process.env))
  parseSettings(process.env)
}

type Setting = { name: string; about: About; standard: unknown }

function listSettings(shape: (typeof chapters)[keyof typeof chapters]): Setting[] {
  return Object.entries(shape).map(([name, schema]) => {
    const about = schema.meta() as About | undefined
    if (about === undefined)
      throw new Error(`The setting ${name} has no description: give it one with ".meta(about(...))".`)
    return { name, about, standard: schema.safeParse(undefined).data }
  })
}

/** `docs/settings.md`. */
export function describeSettings(): string {
  const parts = Object.entries(chapters).map(([title, shape]) => {
    const rows = listSettings(shape).map(({ name, about, standard }) => [
      `\`${name}\``,
      about.type,
      describeDefault(standard, about),
      about.description,
      about.change,
    ])
    return `## ${title}\n\n${toTable(['setting', 'type', 'default', 'what it does', 'who would change it'], rows)}`
  })
  return `# Settings

<!-- Made by: npm run --silent svc -- settings --markdown > docs/settings.md -->

Settings come from the environment, or from a file \`.env\` in the folder where the command runs. The environment wins. An empty
value counts as not set. \`svc settings\` prints the present values without secrets. A command that finds a wrong setting
lists all wrong ones and ends.

Admins can override rate limits for a workspace, a project or a key with \`PUT /api/rest/v2/admin/limits\`.

${parts.join('\n\n')}
`
}

function describeDefault(standard: unknown, { unset, isSecret }: About): string {
  if (isSecret || standard === undefined) return unset ?? ''
  const text = Array.isArray(standard) ? standard.join(',') : String(standard)
  if (text === '') return unset ?? 'none'
  return typeof standard === 'number' ? describeNumber(standard) : `\`${text}\``
}

function describeNumber(number: number): string {
  const gib = number / 1024 ** 3
  return Number.isInteger(gib) && gib > 0 ? `${number} (${gib} GiB)` : String(number)
}

function toTable(head: string[], rows: string[][]): string {
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((cells) => (cells[at] ?? '').length)))
  const lines = [head, widths.map((width) => '-'.repeat(width)), ...rows]
  return lines.map((cells) => `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |`).join('\n')
}

function listPresent(environment: Record<string, string | undefined>): string {
  const { paint } = describeTerminal(process.stdout, process.env)
  const width = Math.max(...Object.keys(fields.shape).map((it) => it.length))
  const lines = Object.entries(chapters).flatMap(([title, shape]) => [
    '',
    paint('bold', title),
    ...listSettings(shape).map(({ name, about, standard }) => {
      const given = environment[name] || undefined
      const value =
        given === undefined ? describeDefault(standard, about).replaceAll('`', '') : describeGiven(given, about)
      return `  ${name.padEnd(width)}  ${given === undefined ? paint('dim', `${value} (default)`) : value}`
    }),
  ])
  return `${lines.slice(1).join('\n')}\n`
}

/** Hides the passwords in addresses: before the @, or in a parameter (`sentinelPassword`). */
function describeGiven(value: string, { isSecret }: About): string {
  if (isSecret) return '(set)'
  return value.replace(/:\/\/.*@/g, '://***@').replace(/([?&][^=&]*(?:pass|secret|key|token)[^=&]*=)[^&]*/gi, '$1***')
}
