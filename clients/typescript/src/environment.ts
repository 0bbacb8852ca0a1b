/** Where settings come from that a program does not give. */
export type Environment = {
  /** Empty in a page. */
  environment: Record<string, string | undefined>
  /** Undefined where there is no address that most use. */
  defaultUrl: string | undefined
}

/** For messages: where else a setting may come from. */
export const orSet = ({ environment }: Pick<Environment, 'environment'>, name: string) =>
  Object.keys(environment).length === 0 ? '' : `, or set ${name}`
