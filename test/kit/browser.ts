import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core'

const root = path.resolve(import.meta.dirname, '../..')

/** Playwright's own 30 s are too few for a page of many reads on a machine that runs three other files of tests. */
const stepMsMax = 120_000

/** Why no browser runs on this machine; undefined when one does. Tests of pages are skipped with this reason. */
export const noBrowser: string | undefined =
  process.platform !== 'linux' || process.arch !== 'x64'
    ? `@sparticuz/chromium has no binary for ${process.platform} on ${process.arch}`
    : undefined

/**
 * Opens headless Chromium with a page of the interface. Errors on the console, exceptions nobody caught and violations of
 * the security policy are collected by `faults`.
 */
export async function openBrowser() {
  const build = spawnSync(process.execPath, [path.join(root, 'cli/install.cjs')], { encoding: 'utf8' })
  if (build.status !== 0) throw new Error(build.stderr)
  const folder = await unpackChromium()
  const launch = (env: Record<string, string>) =>
    chromium.launch({
      executablePath: path.join(folder, 'chromium'),
      headless: true,
      // The package's own arguments turn web security off.
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--font-render-hinting=none'],
      env: { ...process.env, FONTCONFIG_FILE: path.join(folder, 'fonts.conf'), ...env } as Record<string, string>,
    })
  // A machine without Chromium's libraries uses those of the package.
  const browser: Browser = await launch({}).catch(() => launch({ LD_LIBRARY_PATH: path.join(folder, 'al2023/lib') }))
  const faults: string[] = []
  return {
    browser,
    faults,
    /** A reader with a key, or without one, at a service. */
    async openContext(url: string, apiKey?: string, options: BrowserContextOptions = {}): Promise<BrowserContext> {
      const context = await browser.newContext({
        baseURL: url,
        locale: 'en-US',
        timezoneId: 'UTC',
        viewport: { width: 1440, height: 900 },
        ...(apiKey !== undefined && { extraHTTPHeaders: { authorization: apiKey } }),
        ...options,
      })
      context.setDefaultTimeout(stepMsMax)
      context.on('page', (page) => watch(page, faults))
      await context.addInitScript(`addEventListener('securitypolicyviolation', (it) =>
        console.error('CSP: ' + it.violatedDirective + ' ' + it.blockedURI + ' ' + it.sourceFile + ':' + it.lineNumber))`)
      return context
    },
    close: () => browser.close(),
  }
}

export type TestBrowser = Awaited<ReturnType<typeof openBrowser>>

function watch(page: Page, faults: string[]) {
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') faults.push(`${page.url()}: ${message.text()}`)
  })
  page.on('pageerror', (error) => faults.push(`${page.url()}: ${error.stack ?? error.message}`))
}

/** Unpacks the browser once for all tests; another process may do the same at the same time. */
async function unpackChromium(): Promise<string> {
  const packaged = path.join(root, 'node_modules/@sparticuz/chromium/package.json')
  const { version } = JSON.parse(readFileSync(packaged, 'utf8')) as { version: string }
  const cache = path.join(root, 'node_modules/.cache')
  const folder = path.join(cache, `chromium-${version}`)
  if (existsSync(folder)) return folder
  await mkdir(cache, { recursive: true })
  const draft = mkdtempSync(path.join(cache, 'chromium-'))
  const script = `import('@sparticuz/chromium').then(({ default: it }) => it.executablePath())`
  // The variable makes it unpack the libraries too.
  const env = { ...process.env, TMPDIR: draft, AWS_LAMBDA_JS_RUNTIME: 'nodejs24.x' }
  const result = spawnSync(process.execPath, ['-e', script], { cwd: root, env, encoding: 'utf8' })
  if (result.status !== 0) throw new Error(`Chromium was not unpacked:\n${result.stderr}`)
  writeFileSync(path.join(draft, 'fonts.conf'), toFontSettings(folder))
  try {
    renameSync(draft, folder)
  } catch {
    rmSync(draft, { recursive: true, force: true })
  }
  return folder
}

/** The package's font, so that pages look alike on every machine; its own settings expect a folder of the system. */
function toFontSettings(folder: string): string {
  const prefer = (family: string, font: string) =>
    `<alias binding="strong"><family>${family}</family><prefer><family>${font}</family></prefer></alias>`
  return `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
    <dir>${folder}/fonts</dir><dir>/usr/share/fonts</dir><cachedir>${folder}/fonts-cache</cachedir>
    ${prefer('system-ui', 'Open Sans')}${prefer('sans-serif', 'Open Sans')}${prefer('monospace', 'DejaVu Sans Mono')}
    </fontconfig>`
}
