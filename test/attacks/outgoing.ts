import type { Attack, AttackClass, Target } from './target.ts'

/** Spellings of this machine and of its networks, and what is no address of the web. */
function toAddresses(port: number): string[] {
  const hosts = [
    ...[
      '127.0.0.1',
      'localhost',
      'LOCALHOST',
      'localhost.',
      'a.localhost',
      '127.1',
      '127.0.1',
      '0',
      '0.0.0.0',
      '127.0.0.1.',
    ],
    ...[
      '2130706433',
      '0x7f000001',
      '0x7f.0.0.1',
      '0177.0.0.1',
      '017700000001',
      '127.000.000.001',
      '0x7f.1',
      '4294967295',
    ],
    ...[
      '[::1]',
      '[::]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[0:0:0:0:0:ffff:7f00:1]',
      '[64:ff9b::7f00:1]',
      '[::127.0.0.1]',
    ],
    ...['[2002:7f00:1::]', '[fe80::1]', '[fd00::1]', '[fd00:ec2::254]', '169.254.169.254', '168.63.129.16', '10.0.0.1'],
    ...[
      '192.168.0.1',
      '172.16.0.1',
      '100.64.0.1',
      '①②⑦.⓪.⓪.①',
      '127。0。0。1',
      '１２７.0.0.1',
      'user@127.0.0.1',
      'a:b@localhost',
    ],
    ...[
      'example.com@127.0.0.1',
      '127.0.0.1%00.example.com',
      '127.0.0.1\\@example.com',
      'example.com#@127.0.0.1',
      '%31%32%37.0.0.1',
    ],
  ]
  return [
    ...hosts.map((host) => `https://${host}:${port}/`),
    ...['127.0.0.1', '[::1]', 'localhost'].map((host) => `http://${host}:${port}/`),
    ...['ftp', 'gopher', 'ws', 'wss', 'dict', 'ldap', 's3', 'gs', 'hdfs'].map(
      (scheme) => `${scheme}://127.0.0.1:${port}/`,
    ),
    ...[
      'file:///etc/passwd',
      'file://127.0.0.1/etc/passwd',
      'data:text/html,x',
      'javascript:alert(1)',
      'blob:https://a/b',
    ],
    ...[
      `//127.0.0.1:${port}/`,
      `\\\\127.0.0.1\\a`,
      `https:127.0.0.1:${port}`,
      `https:///127.0.0.1:${port}/`,
      ' ',
      'x',
      '',
    ],
    `https://127.0.0.1:${port}\\@example.com/`,
    `\thttps://127.0.0.1:${port}/`,
    `https://127.0.0.1:${port}/\r\nhost: a`,
  ]
}

/** Whatever address somebody names, in whatever field, the service calls nothing inside its network: the canary counts. */
export async function createOutgoing(target: Target): Promise<AttackClass> {
  const { client, workspaceName, projectName, canary, url, providers } = target
  const experimentKey = await client.createExperiment({ projectName })
  const isHeld = ({ status, text }: { status: number; text: string }) =>
    status >= 500 ? `answered ${status}: ${text.slice(0, 200)}` : undefined
  const addresses = toAddresses(canary.port)
  const webhooks: Attack[] = addresses.map((address) => ({
    name: `a webhook to ${JSON.stringify(address)}`,
    async run() {
      const receiver = { url: address }
      const configured = await client.post('/webhooks/config', {
        webhookConfigs: [{ workspaceName, webhookUrls: [receiver] }],
      })
      if (configured.status !== 204) return isHeld(configured)
      // It names nothing that is known to be private: it is tried, and connects to no such address.
      const tried = await client.post('/webhooks/test', { workspaceName, ...receiver })
      return isHeld(tried) ?? (tried.body.isDelivered === true ? 'was delivered' : undefined)
    },
  }))
  const links: Attack[] = addresses.map((link, at) => ({
    name: `a remote file at ${JSON.stringify(link)}`,
    async run() {
      const fileName = `${at}.csv`
      const kept = await client.post('/write/experiment/assets/remote/batch', {
        experimentKey,
        remoteAssets: [{ link, fileName, type: 'dataframe' }],
      })
      if (kept.status !== 200) return isHeld(kept)
      const { assets } = (await client.get(`/experiment/asset/list?experimentKey=${experimentKey}`)).body as {
        assets: { assetId: string; fileName: string }[]
      }
      const assetId = assets.find((it) => it.fileName === fileName)?.assetId ?? ''
      for (const read of ['get-asset', 'page', 'rows']) {
        const query = new URLSearchParams({ experimentKey, assetId })
        const answer = await fetch(`${url}/api/rest/v2/experiment/asset/${read}?${query}`, {
          headers: { authorization: target.apiKey },
          redirect: 'manual',
        })
        const text = await answer.text()
        if (answer.status >= 500) return `${read} answered ${answer.status}: ${text.slice(0, 200)}`
        if (text.includes('of the network') || text.includes('root:')) return `${read} answered what is there`
      }
      return undefined
    },
  }))
  const others: Attack[] = [
    ...['/experiment/asset/zip', '/experiment/asset/tree'].map((path) => ({
      name: `${path} of remote files`,
      run: async () => isHeld(await client.get(`${path}?experimentKey=${experimentKey}`)),
    })),
    {
      name: 'a remote model',
      run: async () =>
        isHeld(
          await client.send(
            'POST',
            '/clientlib/asset/log-remote-model',
            JSON.stringify({
              experimentKey,
              modelName: 'a',
              remoteEntities: [{ remoteUrl: `http://127.0.0.1:${canary.port}/a`, fileName: 'b' }],
            }),
          ),
        ),
    },
    ...[`http://127.0.0.1:${canary.port}/`, 'file:///etc', '../../etc'].map((source) => ({
      name: `a version of MLflow's registry at ${source}`,
      run: async () => {
        const name = `m${Math.random().toString(36).slice(2)}`
        const post = (path: string, body: object) =>
          client.send('POST', `/api/2.0/mlflow/${path}`, JSON.stringify(body))
        await post('registered-models/create', { name })
        return isHeld(await post('model-versions/create', { name, source }))
      },
    })),
  ]
  const signIns: Attack[] = providers.map((id) => ({
    name: `an identity provider: ${id}`,
    async run() {
      const begun = await fetch(`${url}/-/oidc/${id}/start?to=/`, { redirect: 'manual' })
      if (begun.status >= 500) return `answered ${begun.status}`
      const cookie = begun.headers
        .getSetCookie()
        .map((it) => it.split(';')[0])
        .join('; ')
      const to = URL.parse(begun.headers.get('location') ?? '')
      const state = to?.searchParams.get('state')
      if (id === 'taken' && !state) return 'the provider that describes itself is not asked: this attack shows nothing'
      if (!state) return undefined
      const query = new URLSearchParams({ code: 'x', state, iss: to?.origin ?? '' })
      const back = await fetch(`${url}/-/oidc/${id}/callback?${query}`, { redirect: 'manual', headers: { cookie } })
      if (back.status !== 303) return `the callback answered ${back.status}`
      return /reason=provider/.test(back.headers.get('location') ?? '')
        ? undefined
        : `leads to ${back.headers.get('location')}`
    },
  }))
  return {
    name: 'calls into the network',
    oneIn: 5,
    attacks: [...webhooks, ...links, ...others, ...signIns],
    finish: async () => canary.hits().map((it) => `the service called what it must not: ${it}`),
  }
}
