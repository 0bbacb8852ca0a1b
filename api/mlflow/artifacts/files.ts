import { z } from 'zod'
import type { ListedFile } from '../../../store/postgres/mlflow/artifacts.ts'

export const filesAnswer = z.array(z.object({ path: z.string(), is_dir: z.boolean(), file_size: z.int().optional() }))

/** Paths are relative to `base`, which is empty or a folder. */
export const toFiles = (files: ListedFile[], base = ''): z.input<typeof filesAnswer> =>
  files.map(({ name, isFolder, size }) => ({
    path: base === '' ? name : `${base}/${name}`,
    is_dir: isFolder,
    ...(size !== null && { file_size: Number(size) }),
  }))

/** What the paths of all that is in a folder begin with. */
export const toFolder = (path: string) => (path === '' ? '' : `${path}/`)
