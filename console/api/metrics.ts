// Reads metrics in the Prometheus text format.

export interface Sample {
  name: string
  labels: Readonly<Record<string, string>>
  value: number
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([-+]?(?:\d\S*|\.\d\S*|Inf|NaN))/
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g

/** All samples of a text. Comments and lines of another form are skipped. */
export function samplesIn(text: string): Sample[] {
  return text.split('\n').flatMap((line) => {
    const [, name, labels = '', value] = LINE.exec(line) ?? []
    if (name === undefined) return []
    const pairs = [...labels.matchAll(LABEL)].map(([, key = '', written = '']) => [key, unescaped(written)])
    return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }]
  })
}

const unescaped = (text: string) =>
  text.replace(/\\(.)/g, (_, character) => (character === 'n' ? '\n' : character))

/** The value of the sample with all these labels. Undefined: there is none. */
export const sampleOf = (
  samples: readonly Sample[],
  name: string,
  labels: Readonly<Record<string, string>>,
) =>
  samples.find(
    (sample) =>
      sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  )?.value

export const sumOf = (samples: readonly Sample[], name: string): number =>
  samples.filter((sample) => sample.name === name).reduce((sum, { value }) => sum + value, 0)
