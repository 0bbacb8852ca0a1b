import { createServer, type Server } from 'node:net'
import { networkInterfaces } from 'node:os'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Resolve } from '../../../http/outgoing/addresses.ts'
import { isPublicAddress } from '../../../http/outgoing/public-address.ts'
import { parseReceiverUrl } from '../../../http/outgoing/receiver-url.ts'
import { createSender } from '../../../workers/webhooks/sender.ts'

/** The first and last addresses of each range that is not the public internet, and some between. */
const notPublic = [
  ...['0.0.0.0', '0.0.0.1', '0.255.255.255', '10.0.0.0', '10.1.2.3', '10.255.255.255', '100.64.0.0', '100.100.100.200'],
  ...['100.127.255.255', '127.0.0.0', '127.0.0.1', '127.0.0.2', '127.1.1.1', '127.255.255.255', '168.63.129.16'],
  ...['169.254.0.0', '169.254.169.254', '169.254.170.2', '169.254.255.255', '172.16.0.0', '172.17.0.1'],
  ...[
    '172.31.255.255',
    '192.0.0.0',
    '192.0.0.8',
    '192.0.0.170',
    '192.0.0.192',
    '192.0.0.255',
    '192.0.2.0',
    '192.0.2.1',
  ],
  ...['192.0.2.255', '192.88.99.0', '192.88.99.1', '192.88.99.255', '192.168.0.0', '192.168.1.1', '192.168.255.255'],
  ...['198.18.0.0', '198.18.0.1', '198.19.255.255', '198.51.100.0', '198.51.100.255', '203.0.113.0', '203.0.113.255'],
  ...['224.0.0.0', '224.0.0.1', '239.255.255.255', '240.0.0.0', '240.0.0.1', '254.255.255.255', '255.255.255.254'],
  ...['255.255.255.255', '::', '::1', '::2', '::ffff', '0:0:0:0:0:0:0:1', '::127.0.0.1', '::7f00:1', '::10.0.0.1'],
  ...['::8.8.8.8', '::ffff:127.0.0.1', '::ffff:7f00:1', '::ffff:10.0.0.1', '::ffff:169.254.169.254', '::ffff:0.0.0.0'],
  ...['::ffff:192.168.0.1', '::ffff:100.64.0.1', '::ffff:224.0.0.1', '::ffff:255.255.255.255', '::ffff:198.18.0.1'],
  ...['::ffff:0:127.0.0.1', '::ffff:0:8.8.8.8', '64:ff9b::127.0.0.1', '64:ff9b::7f00:1', '64:ff9b::10.0.0.1'],
  ...['64:ff9b::a9fe:a9fe', '64:ff9b::192.168.1.1', '64:ff9b::0.0.0.0', '64:ff9b:1::1', '64:ff9b:1:ffff::10.0.0.1'],
  ...['100::', '100::1', '100::ffff:ffff:ffff:ffff', '2001::', '2001::1', '2001:0:4136:e378:8000:63bf:3fff:fdd2'],
  ...['2001:2::', '2001:2:0:ffff::1', '2001:3::1', '2001:4:112::1', '2001:10::1', '2001:1f:ffff::1', '2001:20::1'],
  ...['2001:2f:ffff::1', '2001:30::1', '2001:db8::', '2001:db8::1', '2001:db8:ffff:ffff::1', '2002::', '2002:7f00:1::'],
  ...[
    '2002:7f00:1::1',
    '2002:a00:1::1',
    '2002:a9fe:a9fe::1',
    '2002:808:808::1',
    '2620:4f:8000::1',
    '3fff::',
    '3fff::1',
  ],
  ...['3fff:fff:ffff::1', '4000::1', '5f00::1', '6000::1', '8000::1', 'a000::1', 'c000::1', 'e000::1', 'f000::1'],
  ...['fc00::', 'fc00::1', 'fd00::1', 'fd00:ec2::254', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 'fe00::1', 'fe80::'],
  ...['fe80::1', 'fe80::a9fe:a9fe', 'febf:ffff::1', 'fec0::1', 'feff::1', 'ff00::', 'ff01::1', 'ff02::1', 'ff05::2'],
  ...['ff0e::1', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
]

/** What is an address to somebody, but not in the one spelling that is taken. */
const spellings = [
  ...[
    '127.1',
    '127.0.1',
    '2130706433',
    '0x7f000001',
    '0x7f.0.0.1',
    '0177.0.0.1',
    '017700000001',
    '127.0.0.01',
    '8.8.8',
  ],
  ...['8.8.2056', '134744072', '08.8.8.8', '8.8.8.8.', '.8.8.8.8', ' 8.8.8.8', '8.8.8.8 ', '8.8.8.8/32', '256.1.1.1'],
  ...['1.1.1.256', '1.1.1.-1', '1.1.1.1.1', '', '.', ':', ':::', '1::2::3', '12345::', '::g', '[::1]', '[2600::1]'],
  ...['fe80::1%eth0', 'fe80::1%1', '2600::1%eth0', '::1%lo', '2600::1%', 'localhost', 'example.com', '::ffff:127.1'],
]

const isPublic = [
  ...['1.0.0.0', '1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.0', '93.184.215.14', '100.63.255.255', '100.128.0.0'],
  ...['126.255.255.255', '128.0.0.0', '168.63.129.15', '168.63.129.17', '169.253.255.255', '169.255.0.0'],
  ...['172.15.255.255', '172.32.0.0', '192.0.1.0', '192.0.3.0', '192.88.98.255', '192.88.100.0', '192.167.255.255'],
  ...['192.169.0.0', '198.17.255.255', '198.20.0.0', '198.51.99.255', '198.51.101.0', '203.0.112.255', '203.0.114.0'],
  ...[
    '223.255.255.255',
    '2000::1',
    '2001:200::1',
    '2001:4860:4860::8888',
    '2003::1',
    '2600::1',
    '2606:4700:4700::1111',
  ],
  ...['2a00:1450:4001:82b::200e', '3ffe:ffff::1', '::ffff:8.8.8.8', '::ffff:808:808', '64:ff9b::8.8.8.8'],
]

describe('an address', () => {
  it.each(notPublic)('%s is not public', (address) => {
    expect(isPublicAddress(address)).toBe(false)
  })
  it.each(spellings)('"%s" is not taken for one', (text) => {
    expect(isPublicAddress(text)).toBe(false)
  })
  it.each(isPublic)('%s is public', (address) => {
    expect(isPublicAddress(address)).toBe(true)
  })
})

const none = new Set<string>()

/** Ways to write a private host in a URL, each refused before any name is asked for. */
const privateHosts = [
  ...[
    '127.0.0.1',
    '127.1',
    '127.0.1',
    '2130706433',
    '0x7f000001',
    '0x7f.1',
    '0177.0.0.1',
    '017700000001',
    '127.0.0.1.',
  ],
  ...[
    '0',
    '0.0.0.0',
    '0x0',
    '00000000000',
    '[::]',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]',
    '[::127.0.0.1]',
  ],
  ...['[::ffff:7f00:1]', '[64:ff9b::127.0.0.1]', '[fd00:ec2::254]', '169.254.169.254', '2852039166', '0xa9fea9fe'],
  ...['0251.0376.0251.0376', '10.1', '192.168.257', '%31%32%37.0.0.1', '１２７.０.０.１', '127。0。0。1', '①②⑦.⓪.⓪.①'],
  ...['localhost', 'LOCALHOST', 'localhost.', 'a.localhost', 'ｌｏｃａｌｈｏｓｔ', 'ⓛⓞⓒⓐⓛⓗⓞⓢⓣ', 'loc\u00adalhost'],
]
/** What is no URL of a receiver at all. */
const notTaken = [
  ...['', 'x', 'example.com/hook', '//example.com', 'http://example.com', 'HTTP://example.com', 'ftp://example.com'],
  ...['file:///etc/passwd', 'javascript:alert(1)', 'data:,x', 'https://', 'https:///', 'https://:443/', 'https://[::1'],
  ...['https://[fe80::1%25eth0]/', 'https://[fe80::1%eth0]/', 'https://user@example.com/', 'https://:pw@example.com/'],
  ...['https://example.com@127.0.0.1/', 'https://127.0.0.1:1@example.com/', 'https://example.com:65536/'],
  ...[
    'https://example.com:0/',
    'https://example.com:x/',
    'https://a b/',
    'https://exa%00mple.com/',
    'https://1.2.3.256/',
  ],
  ...[
    'https://1.2.3.4.5/',
    'https://0x100000000/',
    'https://08.1.1.1/',
    'https://[1.2.3.4]/',
    'https://example.com../',
  ],
  `https://example.com/${'x'.repeat(1_500)}`,
]

describe('the URL of a receiver', () => {
  it.each(privateHosts)('is refused with the host %s', (host) => {
    expect(parseReceiverUrl(`https://${host}/hook`, none)).toEqual({ error: expect.any(String) })
    expect(parseReceiverUrl(`https://${host}:8443/hook`, none)).toEqual({ error: expect.any(String) })
  })
  it.each(notTaken)('is not %s', (text) => {
    expect(parseReceiverUrl(text, none)).toEqual({ error: expect.any(String) })
  })
  it.each([
    ['https://example.com', 'https://example.com/'],
    ['HTTPS://EXAMPLE.com:443/Hook?A=b#part', 'https://example.com/Hook?A=b'],
    ['https://example.com./', 'https://example.com/'],
    ['https://bücher.example/', 'https://xn--bcher-kva.example/'],
    ['https://0x08080808/', 'https://8.8.8.8/'],
    ['https://example.com:8443/x', 'https://example.com:8443/x'],
    ['https://[2600:0:0::1]/', 'https://[2600::1]/'],
    [' https://example.com/ ', 'https://example.com/'],
    ['https:\\\\example.com\\x', 'https://example.com/x'],
  ])('%s is kept as %s', (text, url) => {
    expect(parseReceiverUrl(text, none)).toEqual({ url })
  })
  it('may be private when its host is listed, or its host and port', () => {
    const listed = new Set(['127.0.0.1', 'hooks.localhost:8443', '[::1]'])
    for (const url of [
      'https://127.0.0.1/',
      'https://127.0.0.1:1/',
      'https://hooks.localhost:8443/',
      'https://[::1]/',
    ]) {
      expect(parseReceiverUrl(url, listed)).toEqual({ url })
    }
    for (const url of ['https://127.0.0.2/', 'https://hooks.localhost/', 'https://localhost/', 'https://[::2]/']) {
      expect(parseReceiverUrl(url, listed)).toEqual({ error: expect.any(String) })
    }
  })
})

describe('a sender', () => {
  const servers: Server[] = []
  let connections = 0
  let port: number
  beforeAll(async () => {
    const listen = (host: string, at: number) =>
      new Promise<Server | undefined>((resolve) => {
        const server = createServer((socket) => {
          connections += 1
          socket.destroy()
        })
        server.once('error', () => resolve(undefined))
        server.listen({ host, port: at, ipv6Only: true }, () => resolve(server))
      })
    const first = (await listen('0.0.0.0', 0)) as Server
    port = (first.address() as { port: number }).port
    servers.push(first)
    const second = await listen('::', port)
    if (second) servers.push(second)
  })
  afterAll(() => Promise.all(servers.map((it) => new Promise((resolve) => it.close(resolve)))))

  function openSender(resolve: Resolve) {
    const limits = { connectMsMax: 2_000, answerMsMax: 2_000 }
    return createSender({ privateHosts: none, resolvePublic: resolve, resolvePrivate: resolve, ...limits })
  }
  const toAddress = (address: string) => ({ address, family: address.includes(':') ? 6 : 4 })
  const message = (host: string) => ({ url: `https://${host}:${port}/hook`, headers: {}, body: '{}' })
  const own = Object.values(networkInterfaces()).flatMap((it) => (it ?? []).map(({ address }) => address))
  const local = own.filter((it) => !isPublicAddress(it))

  it('the test socket sees connections to this machine', async () => {
    const limits = { connectMsMax: 2_000, answerMsMax: 2_000 }
    const resolve = async () => [toAddress('127.0.0.1')]
    const privateHosts = new Set(['hook.example'])
    const send = createSender({ privateHosts, resolvePublic: resolve, resolvePrivate: resolve, ...limits })
    await expect(send(message('hook.example'))).rejects.toThrow('connection failed')
    expect(connections).toBe(1)
    connections = 0
  })

  it('connects to no address that is not public, however it is written', async () => {
    const neverAsked = openSender(() => Promise.reject(new Error('asked for a name')))
    for (const host of privateHosts) await expect(neverAsked(message(host)), host).rejects.toThrow('url not allowed')
    expect(connections).toBe(0)
  })

  it('connects to no address that is not public, wherever the name leads', async () => {
    for (const address of [...notPublic, ...local]) {
      const send = openSender(async () => [toAddress(address)])
      await expect(send(message('hook.example')), address).rejects.toThrow('address not public')
      // One public address among others makes them no better.
      const both = openSender(async () => [toAddress('93.184.215.14'), toAddress(address)])
      await expect(both(message('hook.example')), address).rejects.toThrow('address not public')
    }
    expect(connections).toBe(0)
  })

  it('resolves a name once, so that a second DNS answer changes nothing', async () => {
    let asked = 0
    const send = openSender(async () => {
      asked += 1
      // A documentation address would be refused, this one is public and has nobody behind it that answers here.
      return [toAddress(asked === 1 ? '240.0.0.1' : '127.0.0.1')]
    })
    await expect(send(message('rebinding.example'))).rejects.toThrow('address not public')
    expect(asked).toBe(1)
    expect(connections).toBe(0)
  })

  it('connects to the checked address, even if the name resolves to another one by then', async () => {
    let asked = 0
    const resolve: Resolve = async () => {
      asked += 1
      return [toAddress(asked === 1 ? '127.0.0.1' : '127.0.0.2')]
    }
    const limits = { connectMsMax: 2_000, answerMsMax: 2_000 }
    const privateHosts = new Set(['rebinding.example'])
    const send = createSender({ privateHosts, resolvePublic: resolve, resolvePrivate: resolve, ...limits })
    await expect(send(message('rebinding.example'))).rejects.toThrow('connection failed')
    expect([asked, connections]).toEqual([1, 1])
    connections = 0
  })

  it('limits the time of resolving like that of connecting', async () => {
    const limits = { connectMsMax: 50, answerMsMax: 60_000 }
    const never: Resolve = () => new Promise(() => undefined)
    const send = createSender({ privateHosts: none, resolvePublic: never, resolvePrivate: never, ...limits })
    await expect(send(message('hook.example'))).rejects.toThrow('no answer in time')
  })
})

it('there are more than 200 addresses in these tables', () => {
  expect(new Set([...notPublic, ...spellings, ...privateHosts, ...notTaken, ...isPublic]).size).toBeGreaterThan(200)
})
