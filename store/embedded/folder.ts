import { readFileSync } from 'node:fs'
import { chmod, mkdir } from 'node:fs/promises'

/** Makes the folder, readable only by its owner. Throws an error that names the folder. */
export async function makePrivateFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await chmod(folder, 0o700)
  } catch (error) {
    throw new Error(`The folder ${folder} cannot be used: ${(error as Error).message}`, { cause: error })
  }
}

/** The text of a file; undefined if it does not exist. */
export function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
