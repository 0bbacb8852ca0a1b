import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import statics from '@fastify/static'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { prefix } from './route.ts'

/** The web interface: one page that draws every address of it, and the files that the page loads. */
export type Pages = { wants(request: FastifyRequest): boolean; send(reply: FastifyReply): Promise<FastifyReply> }

type Settings = {
  /** The folder with `index.html` and `static/` (see `web/build.ts`). */
  folder: string
  /** The path below which readers see the service: `/`, or the prefix of a proxy that removes it. */
  basePath: string
}

const staticPath = '/-/static/'
/** Pages that notebooks show in a frame. They have no bar and change nothing (`web/api/http.ts`). */
const embedPath = '/-/embed/'
const year = 365 * 24 * 3_600 * 1_000

/** Addresses of programs. Unknown ones get a JSON error, whoever asks. */
const programPaths = [prefix, '/clientlib', '/mpm/v2', '/api/2.0/', '/api/3.0/', staticPath]

/** Serves the pages, if they have been built. The caller sends the page for every unknown address that `wants` it. */
export async function addPages(app: FastifyInstance, { folder, basePath }: Settings): Promise<Pages | undefined> {
  const file = path.join(folder, 'index.html')
  if (!existsSync(file)) return undefined
  await app.register(statics, {
    root: path.join(folder, 'static'),
    prefix: staticPath,
    preCompressed: true,
    // The name of each file holds a hash of its content.
    immutable: true,
    maxAge: year,
    index: false,
    decorateReply: false,
    schemaHide: true,
  })
  const base = basePath.replaceAll('&', '&amp;').replaceAll('"', '&quot;')
  const send = async (reply: FastifyReply) => {
    // Read again each time, so that a new build needs no restart.
    const html = (await readFile(file, 'utf8')).replace('<base href="/">', `<base href="${base}">`)
    reply.code(200).type('text/html; charset=utf-8').header('cache-control', 'no-cache')
    const isEmbedded = reply.request.url.startsWith(embedPath)
    // The older header has no form that lets any page frame this one.
    if (isEmbedded) reply.removeHeader('x-frame-options')
    return reply.header('content-security-policy', toPolicy(html, isEmbedded ? '*' : "'none'")).send(html)
  }
  app.get('/', { schema: { hide: true } }, (_request, reply) => send(reply))
  // Where users of other services look for their key.
  app.get('/api/my/settings', { schema: { hide: true } }, (_request, reply) => reply.redirect(`${basePath}-/settings`))
  return { send, wants: isForPeople }
}

/**
 * Scripts and styles come from this service only; text never becomes markup without a check.
 *
 * @param ancestors which pages may show this one in a frame
 */
function toPolicy(html: string, ancestors: string): string {
  const inline = [...html.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(
    ([, script]) =>
      `'sha256-${createHash('sha256')
        .update(script as string)
        .digest('base64')}'`,
  )
  return [
    "default-src 'none'",
    ["script-src 'self'", ...inline].join(' '),
    "style-src 'self'",
    "img-src 'self' blob: data:",
    "media-src 'self' blob:",
    "font-src 'self'",
    "connect-src 'self'",
    "worker-src 'self'",
    "frame-src 'self' blob:",
    "base-uri 'self'",
    "form-action 'self'",
    `frame-ancestors ${ancestors}`,
    "require-trusted-types-for 'script'",
  ].join('; ')
}

/** A browser that opens an address asks for text/html by name; programs do not. */
function isForPeople({ method, url, headers }: FastifyRequest): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false
  if (!headers.accept?.includes('text/html')) return false
  return !programPaths.some((it) => url.startsWith(it))
}
