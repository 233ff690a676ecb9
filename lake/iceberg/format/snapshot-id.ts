/** Derives a positive 63-bit id from the 128 bits of a uuid. */
export function snapshotIdOf(uuid: string): bigint {
  const bits = BigInt(`0x${uuid.replaceAll('-', '')}`)
  const folded = BigInt.asUintN(63, bits ^ (bits >> 64n))
  return folded === 0n ? 1n : folded
}
