// The scheduler of a second replica: the real thread in its own process. `bun rival.ts <database> <process id>`

const [databaseUrl, processId] = process.argv.slice(2)
const print = (line: string) => process.stdout.write(`${line}\n`)
print(`pid ${process.pid}`)
const thread = new Worker(new URL('../../workers/scheduler.worker.ts', import.meta.url).href)
thread.onmessage = ({ data }) => print(JSON.stringify(data))
thread.postMessage({ type: 'start', settings: { databaseUrl, processId, logFormat: 'text', tracing: null } })
