/** Parses the address. Without credentials in it, the library uses the default ones of AWS. */
export function parseS3Url(url: string, setting: string) {
  const { username, password, host, hostname, pathname, searchParams } = new URL(url)
  const [bucket = '', ...folders] = pathname.slice(1).split('/').map(decodeURIComponent)
  if (host === '' || bucket === '') {
    throw new Error(`${setting}: must name a host and a bucket: s3://access:secret@host:port/bucket?region=us-east-1`)
  }
  const prefix = folders.filter(Boolean).map((it) => `${it}/`)
  return {
    bucket,
    prefix: prefix.join(''),
    endpoint: `${searchParams.get('tls') === 'false' ? 'http' : 'https'}://${host}`,
    region: searchParams.get('region') ?? 'us-east-1',
    // AWS puts the bucket into the host name; others do not, because their host may be an IP address.
    forcePathStyle: !hostname.endsWith('.amazonaws.com'),
    ...(username !== '' && {
      credentials: { accessKeyId: decodeURIComponent(username), secretAccessKey: decodeURIComponent(password) },
    }),
  }
}
