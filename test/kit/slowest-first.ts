import path from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** The files that take longest. Begun last, one of them would run alone at the end. The order matters for the time only. */
const slowest = [
  'test/faults/rolling.test.ts',
  'test/cli/backup.test.ts',
  'test/flow/13-a-backup-restored-reads-the-same.test.ts',
  'test/cli/up/up.test.ts',
  'test/monitoring/rollups.test.ts',
  'test/flow/02-killed-at-any-moment-nothing-is-lost.test.ts',
  'test/faults/kills.test.ts',
  'test/api/access-matrix.test.ts',
  'test/flow/03-a-store-that-is-away-loses-nothing.test.ts',
  'test/flow/11-a-prediction-is-stored-once-for-ever.test.ts',
  'test/workers/webhooks/delivery.test.ts',
  'test/cli/roles.test.ts',
  'test/faults/outage.test.ts',
  'test/cli/doctor/doctor.test.ts',
  'test/store/redis/cluster.test.ts',
  'test/cli/users.test.ts',
  'test/cli/demo/demo.test.ts',
  'test/flow/06-a-full-queue-refuses-and-keeps-what-it-took.test.ts',
  'test/flow/09-every-change-is-told-whoever-is-killed.test.ts',
  'test/operating/alerts.test.ts',
  'test/malformed/malformed.test.ts',
  'test/http/differential/fast-path.test.ts',
]

export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const root = path.resolve(import.meta.dirname, '../..')
    const placeOf = (it: TestSpecification) => {
      const place = slowest.indexOf(path.relative(root, it.moduleId))
      return place === -1 ? slowest.length : place
    }
    return (await super.sort(files)).sort((a, b) => placeOf(a) - placeOf(b))
  }
}
