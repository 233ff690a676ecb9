// Parses the type text of DuckDB (DESCRIBE, typeof) into a tree, and writes the tree as text.

export interface StructField {
  readonly name: string
  readonly type: DuckType
}

export type DuckType =
  /** A type without children, e.g. INTEGER, ENUM('a', 'b'), TIMESTAMP WITH TIME ZONE. `name` excludes arguments. */
  | { readonly kind: 'scalar'; readonly name: string }
  | { readonly kind: 'decimal'; readonly precision: number; readonly scale: number }
  | { readonly kind: 'list'; readonly element: DuckType; readonly length?: number }
  | { readonly kind: 'struct'; readonly fields: readonly StructField[] }
  | { readonly kind: 'map'; readonly key: DuckType; readonly value: DuckType }

/** Deeper types are refused, so that no input can exhaust the stack. */
const DEPTH_LIMIT = 64

/** One spelling per type, because DuckDB and people use several. */
const CANONICAL: Readonly<Record<string, string>> = {
  TIMESTAMPTZ: 'TIMESTAMP WITH TIME ZONE',
  TIMETZ: 'TIME WITH TIME ZONE',
  TEXT: 'VARCHAR',
  STRING: 'VARCHAR',
  INT: 'INTEGER',
  REAL: 'FLOAT',
}

/**
 * Parses a type as DuckDB writes it: `DECIMAL(14,2)`, `STRUCT("a b" INTEGER, c VARCHAR[])[3]`, `"NULL"`.
 * @throws SyntaxError for text that is not a type.
 */
export function parseDuckType(text: string): DuckType {
  const parser = new TypeParser(text)
  const type = parser.type(0)
  parser.expectEnd()
  return type
}

/** Writes the type as text. `quote` decides how the names of struct fields are written. */
export function renderDuckType(type: DuckType, quote: (name: string) => string): string {
  switch (type.kind) {
    case 'scalar':
      return type.name
    case 'decimal':
      return `DECIMAL(${type.precision},${type.scale})`
    case 'list':
      return `${renderDuckType(type.element, quote)}[${type.length ?? ''}]`
    case 'map':
      return `MAP(${renderDuckType(type.key, quote)}, ${renderDuckType(type.value, quote)})`
    case 'struct':
      return `STRUCT(${type.fields.map((f) => `${quote(f.name)} ${renderDuckType(f.type, quote)}`).join(', ')})`
  }
}

type Token = { readonly kind: 'word' | 'name' | 'string' | 'mark' | 'end'; readonly text: string }

const END: Token = { kind: 'end', text: 'the end' }
const TOKEN = /\s*(?:"((?:[^"]|"")*)"|('(?:[^']|'')*')|([\p{L}\p{N}_$]+)|([()[\],]))/uy

class TypeParser {
  private readonly tokens: Token[]
  private position = 0

  constructor(private readonly text: string) {
    this.tokens = tokenize(text)
  }

  type(depth: number): DuckType {
    if (depth > DEPTH_LIMIT) throw new SyntaxError(`a type is nested deeper than ${DEPTH_LIMIT} levels`)
    let type = this.base(depth)
    while (this.accept('[')) {
      const length = this.peek().kind === 'word' ? this.integer() : undefined
      this.expect(']')
      type = { kind: 'list', element: type, ...(length !== undefined && { length }) }
    }
    return type
  }

  expectEnd() {
    if (this.peek().kind !== 'end') this.fail(this.peek())
  }

  private base(depth: number): DuckType {
    const words = [this.nameOrWord().toUpperCase()]
    while (this.peek().kind === 'word') words.push(this.next().text.toUpperCase())
    const spelled = words.join(' ')
    const name = CANONICAL[spelled] ?? spelled
    if (!this.accept('(')) return { kind: 'scalar', name }
    if (name === 'STRUCT') return { kind: 'struct', fields: this.fields(depth) }
    if (name === 'MAP') return this.map(depth)
    if (name === 'DECIMAL') return this.decimal()
    this.skipArguments()
    return { kind: 'scalar', name }
  }

  private fields(depth: number): StructField[] {
    const fields: StructField[] = []
    do {
      const second = this.tokens[this.position + 1]
      const isNamed = second?.kind === 'word' || second?.kind === 'name'
      fields.push({ name: isNamed ? this.nameOrWord() : '', type: this.type(depth + 1) })
    } while (this.accept(','))
    this.expect(')')
    return fields
  }

  private map(depth: number): DuckType {
    const key = this.type(depth + 1)
    this.expect(',')
    const value = this.type(depth + 1)
    this.expect(')')
    return { kind: 'map', key, value }
  }

  private decimal(): DuckType {
    const precision = this.integer()
    this.expect(',')
    const scale = this.integer()
    this.expect(')')
    return { kind: 'decimal', precision, scale }
  }

  private skipArguments() {
    for (let open = 1; open > 0; ) {
      const token = this.next()
      if (token.kind === 'end') this.fail(token)
      if (token.kind === 'mark' && token.text === '(') open += 1
      if (token.kind === 'mark' && token.text === ')') open -= 1
    }
  }

  private integer(): number {
    const token = this.next()
    if (token.kind !== 'word' || !/^\d+$/.test(token.text)) this.fail(token)
    return Number(token.text)
  }

  private nameOrWord(): string {
    const token = this.next()
    if (token.kind !== 'word' && token.kind !== 'name') this.fail(token)
    return token.text
  }

  private peek(): Token {
    return this.tokens[this.position] ?? END
  }

  private next(): Token {
    const token = this.peek()
    this.position += 1
    return token
  }

  private accept(mark: string): boolean {
    const token = this.peek()
    if (token.kind !== 'mark' || token.text !== mark) return false
    this.position += 1
    return true
  }

  private expect(mark: string) {
    if (!this.accept(mark)) this.fail(this.peek())
  }

  private fail(token: Token): never {
    throw new SyntaxError(`not a DuckDB type: ${this.text} (unexpected ${token.text})`)
  }
}

function tokenize(text: string): Token[] {
  const tokens: Token[] = []
  const end = text.trimEnd().length
  TOKEN.lastIndex = 0
  while (TOKEN.lastIndex < end) {
    const match = TOKEN.exec(text)
    if (!match) throw new SyntaxError(`not a DuckDB type: ${text}`)
    const [, name, string, word, mark] = match
    if (name !== undefined) tokens.push({ kind: 'name', text: name.replaceAll('""', '"') })
    else if (string !== undefined) tokens.push({ kind: 'string', text: string })
    else if (word !== undefined) tokens.push({ kind: 'word', text: word })
    else if (mark !== undefined) tokens.push({ kind: 'mark', text: mark })
  }
  return tokens
}
