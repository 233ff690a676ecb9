// Loaded by a thread that nobody's request waits for before its entry: it, and no other thread of the process, gives way to
// those that answer requests. Imported by the entry it would come too late: modules are compiled before any is evaluated, and
// that is most of what the start of a thread costs. Only Linux has priorities of threads; elsewhere the whole process would
// get this one.
import { getPriority, setPriority } from 'node:os'

const NICENESS = 10

// Whoever has started the service with less priority than this may not be able to give it any back.
if (process.platform === 'linux') setPriority(0, Math.max(NICENESS, getPriority(0)))
