import { expect } from 'vitest'
import type { Answer } from '../kit/http/client.ts'

/** Checks all of a refusal: status, content type to the byte, and an envelope of four fields with the right message. */
export function expectRefusal(answer: Answer, status: number, code: number, message: string | RegExp) {
  expect({ status: answer.status, type: answer.headers.get('content-type'), body: answer.body }).toEqual({
    status,
    type: 'application/json',
    body: {
      msg: typeof message === 'string' ? message : expect.stringMatching(message),
      code: status,
      data: null,
      sdk_error_code: code,
    },
  })
}

/** Codes as decisions.md numbers them. */
export const codes = {
  badRequest: 8000001,
  badJson: 8000002,
  badCompression: 8000003,
  keyMissing: 8000004,
  keyUnknown: 90212,
  experimentKeyMissing: 90998,
  experimentUnknown: 90211,
  experimentExists: 90999,
  valuesFull: 8000155,
  pointsWrong: 8000020,
  workspaceUnknown: 90219,
  workspaceExists: 8000006,
  projectUnknown: 8000007,
  projectNameUnknown: 8000076,
  projectExists: 8000008,
  projectNameMissing: 98219,
  projectNameTooLong: 1341241,
  routeUnknown: 8000009,
  wrongMethod: 8000010,
  tooLarge: 8000011,
  unsupportedType: 8000012,
  throttled: 8000013,
  referenceUnknown: 8000101,
  segmentUnknown: 8000140,
  segmentTaken: 8000141,
} as const
