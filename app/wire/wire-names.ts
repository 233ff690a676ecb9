// Fields are camelCase in code, and snake_case on the wire and in SQL: `runsMaxAgeDays` is `runs_max_age_days`.

type Snake<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Snake<Rest>}`
  : Name
type Camel<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<Camel<Rest>>}`
  : Name

export type SnakeCased<Fields> = { [Name in keyof Fields as Snake<Name & string>]: Fields[Name] }
type CamelCased<Fields> = { [Name in keyof Fields as Camel<Name & string>]: Fields[Name] }

/** Renames the fields of an object; nested objects stay as they are. */
export const snakeCased = <Fields extends object>(fields: Fields) =>
  renamed(fields, (name) =>
    name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
  ) as SnakeCased<Fields>

/** Renames the fields of an object; nested objects stay as they are. */
export const camelCased = <Fields extends object>(fields: Fields) =>
  renamed(fields, (name) =>
    name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
  ) as CamelCased<Fields>

const renamed = (fields: object, rename: (name: string) => string): object =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [rename(name), value]))
