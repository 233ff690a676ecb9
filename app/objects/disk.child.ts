import { openObjectStore } from './open.ts'

// disk.test.ts starts this and kills it while it writes: `bun disk.child.ts <root> endless|busy`.

const [root = '', mode] = process.argv.slice(2)
const store = await openObjectStore({ kind: 'disk', root })
const printLine = (line: string) => process.stdout.write(`${line}\n`)

if (mode === 'endless') {
  let chunks = 0
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (chunks++ < 4) return controller.enqueue(new Uint8Array(65_536))
      printLine('half written')
      return new Promise(() => setInterval(() => {}, 1000))
    },
  })
  await store.put('ns/a.sql', body)
}

let writes = 0
const writeForever = async () => {
  for (;;) {
    const number = writes++ % 256
    const key = `ns/${number % 7}/a.csv`
    const { versionId } = await store.put(key, new Uint8Array(100_000 + number).fill(number))
    printLine(`${key} ${versionId} ${number}`)
  }
}
await Promise.all([writeForever(), writeForever(), writeForever(), writeForever()])
