// Types of the server's answers, for the type check only: this file is not served.

/** @typedef {(typeof import('../app/inspector/schema.ts').DefinitionBody)['static']} Definition */
/** @typedef {import('../app/inspector/schema.ts').Listed} Listed */
/** @typedef {import('../app/inspector/schema.ts').Counts} Counts */
/** @typedef {import('../app/inspector/schema.ts').Snapshot} Snapshot */
/** @typedef {import('../app/inspector/schema.ts').Step} Step */
/** @typedef {import('../app/inspector/schema.ts').History} History */
/** @typedef {Snapshot & { facts: Record<string, any>, history?: History }} Instance */
/** @typedef {(typeof import('../app/inspector/schema.ts').Instances)['static']} Instances */
/** @typedef {Counts[string]} Counted how many instances; `more`: counting stopped at its limit */
/** @typedef {Partial<Record<'namespace' | 'layer' | 'pipeline' | 'state' | 'q', string>>} Filter */
/** @typedef {'live' | 'connecting' | 'ended'} Connection of an event stream */
/** @typedef {Node | string | null | undefined} One null and undefined are left out */
/** @typedef {One | One[]} Child what an element may hold */

export {}
