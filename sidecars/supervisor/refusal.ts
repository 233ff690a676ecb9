/** Why Sluice does not start: one line for the person who started it. */
export class Refusal extends Error {}

export const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
