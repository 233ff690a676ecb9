// Types of the server's answers, only for type checks. This file is not served.

/** @typedef {(typeof import('../app/inspector/schema.ts').DefinitionBody)['static']} Definition */
/** @typedef {import('../app/inspector/schema.ts').Listed} Listed */
/** @typedef {import('../app/inspector/schema.ts').Counts} Counts */
/** @typedef {import('../app/inspector/schema.ts').Snapshot} Snapshot */
/** @typedef {import('../app/inspector/schema.ts').Step} Step */
/** @typedef {import('../app/inspector/schema.ts').History} History */
/** @typedef {Snapshot & { facts: Record<string, any>, history?: History }} Instance */
/** @typedef {(typeof import('../app/inspector/schema.ts').Instances)['static']} Instances */
/** @typedef {Counts[string]} Counted number of instances; `more`: counting stopped at its limit */
/** @typedef {Partial<Record<'namespace' | 'layer' | 'pipeline' | 'state' | 'q', string>>} Filter */
/** @typedef {'live' | 'connecting' | 'ended'} Connection of an event stream */
/** @typedef {Node | string | null | undefined} One null and undefined are skipped */
/** @typedef {One | One[]} Child content of an element */

export {}
