// A Python pipeline that attacks its runner over the channel between the two. It must fail alone.

/** Writes to the runner past Python's own channel. The last socket or pipe descriptor leads to the runner. */
const CHANNEL = `
import os, stat, time
def leads_to_runner(fd):
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)
outgoing = max(fd for fd in range(3, 64) if leads_to_runner(fd))
def say(data):
    while data:
        data = data[os.write(outgoing, data):]
def call(number, sql):
    say(b'{"call":%d,"method":"relate","sql":"%s","params":[]}\\n' % (number, sql.encode()))
`

/** Never reads the answers of the engine. Attacks that need no engine are in the runner's `hostile.test.ts`. */
export const HOSTILE_PYTHON = `${CHANNEL}
for n in range(40):
    call(n + 1, "select " + ", ".join(f"1 as column_{i}" for i in range(500)))
    time.sleep(0.05)
os._exit(1)`
