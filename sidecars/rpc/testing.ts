/** Helpers of tests that start and call sidecars. */
import type { Transport } from '@connectrpc/connect'
import { createConnectTransport } from '@connectrpc/connect-web'
import { sendsToken } from '../../proto/sidecar-token.ts'

export const TEST_TOKEN = 'a-token-of-the-tests-0123456789abcdef'

/** A transport to a sidecar that was started with the token of the tests. */
export const transportToSidecar = (baseUrl: string): Transport =>
  createConnectTransport({ baseUrl, useBinaryFormat: true, interceptors: [sendsToken(TEST_TOKEN)] })

/** The access of a test's API to sidecars that use the tests' token. */
export const testAccess = (publicUrl: string) => ({ token: TEST_TOKEN, tokenUrls: null, publicUrl })
