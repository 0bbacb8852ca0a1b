import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Closers } from '../../runtime/closers.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { checkAnswers, ProgramMissing, startProcess, waitUntilReady } from '../kit/processes/process.ts'

/** The proxies that our Compose file and chart have in front, with few connections to the service, which they reuse. */
export type StartedProxy = { name: 'nginx' | 'Caddy'; url: string }

type ToConfiguration = (places: { folder: string; port: number; service: string }) => string
type Program = {
  name: StartedProxy['name']
  file: string
  toArgs(folder: string, file: string): string[]
  configure: ToConfiguration
}

/** Those that this machine has. */
export async function startProxies(service: string, closers: Closers): Promise<StartedProxy[]> {
  const programs: Program[] = [
    {
      name: 'nginx',
      file: 'nginx',
      toArgs: (folder, file) => ['-p', folder, '-c', file, '-e', 'error.log'],
      configure: toNginx,
    },
    {
      name: 'Caddy',
      file: 'caddy',
      toArgs: (_folder, file) => ['run', '--adapter', 'caddyfile', '--config', file],
      configure: toCaddy,
    },
  ]
  const proxies: StartedProxy[] = []
  for (const program of programs) {
    const url = await startProxy(program, service, closers)
    if (url !== undefined) proxies.push({ name: program.name, url })
  }
  return proxies
}

async function startProxy({ name, file, toArgs, configure }: Program, service: string, closers: Closers) {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-attacks-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  const port = await findFreePort()
  const configuration = path.join(folder, 'proxy.conf')
  await writeFile(configuration, configure({ folder, port, service: new URL(service).host }))
  try {
    const environment = { PATH: `${process.env.PATH}:/usr/sbin`, HOME: folder }
    const running = startProcess({ file, args: toArgs(folder, configuration), environment })
    closers.push(() => running.stop('SIGTERM'))
    const url = `http://127.0.0.1:${port}`
    await waitUntilReady(name, running, () => checkAnswers(`${url}/livez`))
    return url
  } catch (error) {
    if (error instanceof ProgramMissing) return undefined
    throw error
  }
}

const toNginx: ToConfiguration = ({ folder, port, service }) => `
daemon off;
master_process off;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  client_header_timeout 2s;
  client_body_timeout 2s;
  underscores_in_headers on;
  ignore_invalid_headers off;
  upstream service { server ${service}; keepalive 1; }
  server {
    listen 127.0.0.1:${port};
    location /clientlib/ { return 403; }
    location / {
      proxy_pass http://service;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_request_buffering off;
      proxy_ignore_client_abort on;
    }
  }
}
`

const toCaddy: ToConfiguration = ({ port, service }) => `
{
	admin off
	auto_https off
	servers {
		timeouts {
			read_header 2s
			read_body 2s
		}
	}
}
http://127.0.0.1:${port} {
	handle /clientlib/* {
		respond 403
	}
	handle {
		reverse_proxy ${service} {
			flush_interval 100ms
			transport http {
				dial_timeout 2s
				keepalive 60s
				keepalive_idle_conns_per_host 1
			}
		}
	}
}
`
