/** The header that marks a busy service, in contrast to an unreachable one. */
export const BUSY_HEADER = 'sluice-busy'
