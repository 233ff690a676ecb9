// Attacks an engine process could make on the channel to its service after SQL has broken out of the engine.
import { closeSync, readFileSync, writeSync } from 'node:fs'

/** Where Bun.spawn puts the channel of a child with three standard descriptors. */
const CHANNEL = 3

const attack = readFileSync('attack', 'utf8')
if (attack === 'close') closeSync(CHANNEL)
else writeSync(CHANNEL, Buffer.from(attack, 'hex'))
setInterval(() => {}, 1_000)
