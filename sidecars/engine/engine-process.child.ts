// Starts an engine process that attacks this process, and prints how the engine ended. Arguments: `<directory> <attack>`.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeLog } from '../core/log.ts'
import { surviveUndecodableMessages } from '../rpc/undecodable.ts'
import { engineSandboxOf } from '../sandbox/engine-sandbox.ts'
import { EngineProcess } from './engine-process.ts'

const [directory = '', attack = ''] = process.argv.slice(2)
writeFileSync(join(directory, 'attack'), attack)
surviveUndecodableMessages(makeLog('test', 'text'))
const engine = new EngineProcess<{ kind: 'none' }, { none: null }, never>({
  entry: new URL('./hostile-engine.child.ts', import.meta.url),
  directory,
  niceness: 0,
  sandbox: engineSandboxOf('none', { readable: [], writable: [] }),
  residentBytesMax: () => Number.MAX_SAFE_INTEGER,
  isFromEngine: (_): _ is never => false,
  isAnswerOf: () => false,
  errorOf: () => new Error('none'),
})
process.stdout.write(`${await engine.exited}\n`)
