/** Texts by name, the least recently used ones forgotten first. */
export class TextCache {
  private readonly texts = new Map<string, string>()
  private bytes = 0

  constructor(private readonly bytesMax: number) {}

  get(name: string): string | undefined {
    const text = this.texts.get(name)
    if (text === undefined) return undefined
    this.texts.delete(name)
    this.texts.set(name, text)
    return text
  }

  set(name: string, text: string): void {
    this.forget(name)
    this.texts.set(name, text)
    this.bytes += sizeOf(text)
    for (const oldest of this.texts.keys()) {
      if (this.bytes <= this.bytesMax) return
      this.forget(oldest)
    }
  }

  private forget(name: string) {
    const text = this.texts.get(name)
    if (text === undefined) return
    this.texts.delete(name)
    this.bytes -= sizeOf(text)
  }
}

/** At worst two bytes a character in memory. */
const sizeOf = (text: string) => text.length * 2
