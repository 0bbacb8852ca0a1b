/** The variables that `rehearse` passes to its tests. */
export function given(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} must be set: deploy/test/rehearse does`)
  return value
}
