/** Hours after which a run in review fails, unless its configuration says another time. */
export const REVIEW_TIMEOUT_HOURS = 72
