import { makeTurns as makeAnyTurns, type Turns } from '../engine/turns.ts'
import { limits } from './limits.ts'

/** There is no engine for a query: too many wait already, it has waited too long, or none can be started. */
export class NoTurn extends Error {}

/** Queries take turns: so many at once. Entering throws NoTurn, also when the signal is aborted while waiting. */
export const makeTurns = (max: number): Turns =>
  makeAnyTurns({
    max,
    waitingMax: limits.waiting,
    full: (waiting) => new NoTurn(`${waiting} queries are waiting already`),
    gaveUp: () => new NoTurn('no engine became free in time'),
  })
