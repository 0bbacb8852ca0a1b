/** For `sort`: texts by their code units. */
export const compare = <T extends bigint | number | string | boolean>(one: T, other: T): number =>
  one < other ? -1 : one > other ? 1 : 0
