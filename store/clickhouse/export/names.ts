/** The name of a column in a statement. */
export const quoteName = (name: string) => `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``
