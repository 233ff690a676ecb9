import { openObjectStore } from './open.ts'

// disk.test.ts starts this and kills it while it writes: `bun disk.child.ts <root> endless|busy`.

const [root = '', mode] = process.argv.slice(2)
const store = await openObjectStore({ kind: 'disk', root })
const tell = (line: string) => process.stdout.write(`${line}\n`)

if (mode === 'endless') {
  let chunks = 0
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (chunks++ < 4) return controller.enqueue(new Uint8Array(65_536))
      tell('half written')
      return new Promise(() => setInterval(() => {}, 1000))
    },
  })
  await store.put('ns/a.sql', body)
}

let turn = 0
const writeOn = async () => {
  for (;;) {
    const number = turn++ % 256
    const key = `ns/${number % 7}/a.csv`
    const { versionId } = await store.put(key, new Uint8Array(100_000 + number).fill(number))
    tell(`${key} ${versionId} ${number}`)
  }
}
await Promise.all([writeOn(), writeOn(), writeOn(), writeOn()])
