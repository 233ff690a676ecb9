// Attacks that an engine process could make on its channel after SQL has escaped from the engine. With `silence`, it never answers.
import { closeSync, readFileSync, writeSync } from 'node:fs'

/** The descriptor that Bun.spawn gives to the channel of a child with three standard descriptors. */
const CHANNEL = 3

const attack = readFileSync('attack', 'utf8')
if (attack === 'close') closeSync(CHANNEL)
else if (attack !== 'silence') writeSync(CHANNEL, Buffer.from(attack, 'hex'))
setInterval(() => {}, 1_000)
