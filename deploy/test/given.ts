/** What `rehearse` tells its tests in the environment. */
export function given(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} must be set: deploy/test/rehearse does`)
  return value
}
