// Reads variables of the environment and collects their errors.
import { BlockList } from 'node:net'
import { networksOf } from '../wire/client-address.ts'

const MIB = 1_048_576

export type Env = Record<string, string | undefined>

/** An invalid value is recorded in `problems`. Some value is returned anyway, so that one pass finds all problems. */
export class Variables {
  readonly problems: string[] = []
  readonly #env: Env
  constructor(env: Env) {
    this.#env = env
  }

  bad(name: string, why: string) {
    this.problems.push(`${name}: ${why}`)
  }

  text(name: string, fallback = ''): string {
    return this.#env[name]?.trim() || fallback
  }

  /** The values of a list that is separated by commas. */
  list(name: string, fallback = ''): string[] {
    return this.text(name, fallback)
      .split(',')
      .map((value) => value.trim())
      .filter((value) => value !== '')
  }

  /** `first` is the default. */
  either<Value extends string>(name: string, first: Value, second: Value): Value {
    const value = this.text(name, first)
    if (value !== first && value !== second) this.bad(name, `must be ${first} or ${second}`)
    return value === second ? second : first
  }

  /** A part that `off` disables. */
  isOn(name: string): boolean {
    return this.either(name, 'on', 'off') === 'on'
  }

  count(name: string, fallback: number, most = 9_999_999): number {
    const value = this.text(name, String(fallback))
    if (!/^[1-9]\d{0,6}$/.test(value) || Number(value) > most)
      this.bad(name, `'${value}' is not a number from 1 to ${most}`)
    return Number(value)
  }

  /** Null: the value is `off`, so no limit applies. */
  limit(name: string, fallback: number | 'off'): number | null {
    const value = this.text(name, String(fallback))
    return value === 'off' ? null : this.count(name, Number(fallback))
  }

  /** A size such as 512MB or 2GB, in bytes. */
  bytes(name: string, fallback: number): number {
    const value = this.text(name, `${fallback / MIB}MB`)
    const [, amount, unit] = /^(\d+(?:\.\d+)?)\s*(M|G)i?B$/i.exec(value) ?? []
    if (!(Number(amount) > 0)) this.bad(name, `'${value}' is not a size such as 512MB or 2GB`)
    return Math.floor(Number(amount) * (unit?.toUpperCase() === 'G' ? 1_024 * MIB : MIB))
  }

  networks(name: string, fallback: string): BlockList {
    const value = this.text(name, fallback)
    const found = networksOf(value === 'none' ? [] : value.split(',').map((network) => network.trim()))
    if (found === null)
      this.bad(name, `'${value}' is not a list of addresses and networks such as 10.0.0.0/8`)
    return found ?? new BlockList()
  }
}
