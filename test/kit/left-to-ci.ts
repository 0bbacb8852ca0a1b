/**
 * Files that `npm test` leaves to CI (`npm run test:ci`), so that it takes minutes: commands of operators on stores of their own,
 * engines and clusters that are started again and again, bounds of memory. Each takes ten seconds and more, and fails seldom.
 * A file that is named on the command line is run in any form.
 */
export const leftToCi = [
  'clients/typescript/test/faults.test.ts',
  'test/api/assets/memory.test.ts',
  'test/api/read-replica.test.ts',
  'test/cli/backup.test.ts',
  'test/cli/demo/demo.test.ts',
  'test/cli/doctor/doctor.test.ts',
  'test/cli/up/errors.test.ts',
  'test/cli/up/secrets.test.ts',
  'test/cli/users.test.ts',
  'test/flow/14-a-write-is-traced-from-request-to-insert.test.ts',
  'test/operating/alerts.test.ts',
  'test/store/clickhouse/cluster.test.ts',
  'test/store/embedded/engines.test.ts',
]
