// The time of day has one door in the console, too: this file. The browser's clock may be wrong, so the service corrects it.

/** Milliseconds that the service's clock is ahead of the browser's clock. */
let aheadMs = 0

/** Sets the clock to the time in an answer that has just arrived. */
export const setClock = (at: string): void => {
  aheadMs = Date.parse(at) - Date.now()
}

export const now = (): Date => new Date(Date.now() + aheadMs)
