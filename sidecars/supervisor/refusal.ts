/** The reason why Sluice does not start, in one line for its operator. */
export class Refusal extends Error {}

export const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
