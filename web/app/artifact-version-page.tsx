import { VersionPage } from '../artifacts/version-page.tsx'
import { FilesView } from '../files/files-view.tsx'

/** One version of an artifact. Rooms do not know each other, so the page is put together here. */
export function ArtifactVersionRoute() {
  return <VersionPage Files={FilesView} />
}
