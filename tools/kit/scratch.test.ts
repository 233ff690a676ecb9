import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { isAlive } from '../../sidecars/supervisor/testing.ts'
import { until } from './until.ts'

/** Starts a test command as a separate process. Its output is JSON lines. */
function command(work: string) {
  const source = `
    const { endWith, inScratch } = await import('${join(import.meta.dirname, 'scratch.ts')}')
    const { run } = await import('${join(import.meta.dirname, 'run.ts')}')
    const say = (value) => console.log(JSON.stringify(value))
    await inScratch(async () => { ${work} }, { farewellMs: 100 })`
  return Bun.spawn([process.execPath, '-e', source], { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
}

const printed = async (child: ReturnType<typeof command>) =>
  (await new Response(child.stdout).text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

test("child processes share the command's directory, which is removed at its end", async () => {
  const ended = command(`
    const { output } = await run({ command: ['sh', '-c', 'touch "$TMPDIR/left" && echo "$TMPDIR"'], limitMs: 60000 })
    say([process.env.TMPDIR, output])
    return 3`)
  const [[own, inherited]] = await printed(ended)
  expect(await ended.exited).toBe(3)
  expect(inherited).toBe(own)
  expect(existsSync(own)).toBe(false)
})

test('an interrupt cleans up in reverse order and leaves no process', async () => {
  const interrupted = command(`
    endWith(async () => say('first'))
    endWith(async () => say('second'))
    // A group of its own, as a browser has it, that outlives whoever started it.
    const escaped = Bun.spawn(['sleep', '1000'], { detached: true, env: process.env })
    const onLine = (line) => say([process.env.TMPDIR, escaped.pid, Number(line)])
    await run({ command: ['sh', '-c', 'echo $$; sleep 1000'], limitMs: 60000, onLine })
    say('never')
    return 0`)
  const reader = interrupted.stdout.getReader()
  const decoder = new TextDecoder()
  let output = ''
  while (!output.includes('\n')) output += decoder.decode((await reader.read()).value)
  const [directory, escaped, shell] = JSON.parse(output)
  expect([existsSync(directory), isAlive(escaped), isAlive(shell)]).toEqual([true, true, true])
  interrupted.kill('SIGINT')
  interrupted.kill('SIGTERM')
  expect(await interrupted.exited).toBe(130)
  await until(() => !isAlive(escaped) && !isAlive(shell))
  expect(existsSync(directory)).toBe(false)
  for (let part = await reader.read(); !part.done; part = await reader.read())
    output += decoder.decode(part.value)
  expect(output.trim().split('\n').slice(1)).toEqual(['"second"', '"first"'])
})

test('a command that throws prints the error and exits with 1', async () => {
  const broken = command(`throw new Error('no such part')`)
  expect(await broken.exited).toBe(1)
  expect(await new Response(broken.stderr).text()).toContain('error: no such part')
})
