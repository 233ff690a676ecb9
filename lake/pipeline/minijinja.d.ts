/** The JavaScript glue of `minijinja-js` without its WASM. Only the part that `template-engine.ts` uses is declared. */
declare module 'minijinja-js/dist/bundler/minijinja_js_bg.js' {
  /** Connects the glue to one instance of the module. */
  export function __wbg_set_wasm(exports: WebAssembly.Exports): void

  export class Environment {
    debug: boolean
    keepTrailingNewline: boolean
    undefinedBehavior: 'strict' | 'chainable' | 'lenient'
    fuel: number | undefined
    addGlobal(name: string, value: unknown): void
    removeGlobal(name: string): void
    addTemplate(name: string, source: string): void
    renderNamedStr(name: string, source: string, context: Record<string, unknown>): string
    free(): void
  }
}
