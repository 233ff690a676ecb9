// Two concurrent runs. One attacks the other, and knows the name of its directory and its process.
import type { Bench } from './testing.ts'

/** TARGET is the directory of the other run, PID its process. Each attempt must fail. */
export const NEIGHBOUR_ATTEMPTS: Record<string, string> = {
  'lists its directory': 'os.listdir(TARGET)',
  'lists its directory from within': 'os.chdir(TARGET); os.listdir(".")',
  'reads its file from within': 'os.chdir(TARGET); open("secret").read()',
  'reads its file': 'open(TARGET + "/secret").read()',
  'reads its file by system call': 'must(libc.open((TARGET + "/secret").encode(), 0))',
  'writes its file': 'open(TARGET + "/secret", "a").write("x")',
  'adds a file': 'open(TARGET + "/new", "w")',
  'removes its file': 'os.unlink(TARGET + "/secret")',
  'renames its file': 'os.rename(TARGET + "/secret", TARGET + "/other")',
  'moves its file': 'os.rename(TARGET + "/secret", "mine")',
  'links its file': 'os.link(TARGET + "/secret", "mine")',
  'changes the mode of its directory': 'os.chmod(TARGET, 0o777)',
  'removes all rights of its directory': 'os.chmod(TARGET, 0)',
  'changes the mode by system call': 'must(libc.chmod(TARGET.encode(), 0o777))',
  'changes the mode by fchmodat2': 'must(libc.syscall(452, -100, TARGET.encode(), 0o777, 0))',
  'changes the mode of its file': 'os.chmod(TARGET + "/secret", 0o666)',
  'changes the times of its directory': 'os.utime(TARGET, (0, 0))',
  'changes the owner of its directory': 'os.chown(TARGET, os.getuid(), -1)',
  'lists all directories': 'os.listdir(os.path.dirname(os.path.dirname(TARGET)))',
  'lists all directories by a relative path': 'must(0 if set(os.listdir("../..")) - OWN else -1)',
  'signals its process': 'os.kill(PID, 0)',
  'ends its process by system call': 'must(libc.kill(PID, 9))',
  'ends its thread by system call': 'must(libc.syscall(234, PID, PID, 9))',
  'queues a signal': 'must(libc.syscall(129, PID, 9, (ctypes.c_char * 128)()))',
  'opens a descriptor of its process': 'must(libc.syscall(434, PID, 0))',
  'traces its process': 'must(libc.ptrace(16, PID, 0, 0))',
  'reads its memory': 'must(libc.syscall(310, PID, (ctypes.c_char * 16)(), 1, (ctypes.c_char * 16)(), 1, 0))',
  'opens its memory': 'open("/proc/%d/mem" % PID, "rb")',
  'lists its descriptors': 'os.listdir("/proc/%d/fd" % PID)',
  'lists its root directory': 'os.listdir("/proc/%d/root/" % PID)',
  'limits its process': 'resource.prlimit(PID, resource.RLIMIT_NOFILE, (1, 1))',
  'slows its process down': 'os.sched_setaffinity(PID, {0})',
}

const attack = (directory: string, pid: number) => `
import ctypes, json, os, resource
libc = ctypes.CDLL(None, use_errno=True)
def must(answer):
    if answer < 0:
        raise OSError(ctypes.get_errno() or 1, "refused")
TARGET, PID = ${JSON.stringify(directory)}, ${pid}
OWN = {os.path.basename(os.getcwd()), os.path.basename(os.path.dirname(os.getcwd()))}
home = os.getcwd()
for name, source in json.loads(${JSON.stringify(JSON.stringify(NEIGHBOUR_ATTEMPTS))}).items():
    try:
        exec(source)
        print(json.dumps([name, "NOT REFUSED"]))
    except OSError as error:
        print(json.dumps([name, "refused"]))
    except BaseException as error:
        print(json.dumps([name, repr(error)]))
    os.chdir(home)
result = [{"a": os.getuid()}]`

const VICTIM = `
import json, os, sys
open("secret", "w").write("of the victim")
print("ready")
ref("wait")
result = [{"secret": open("secret").read(), "files": sorted(os.listdir("."))}]`

/** Returns the attempts that were not refused, and the outcome of the attacked run. */
export async function attackNeighbour(bench: Bench) {
  const ready = Promise.withResolvers<void>()
  const attacked = Promise.withResolvers<void>()
  const victims: { directory: string; pid: number }[] = []
  const victim = bench.run(VICTIM, {
    onLease: ({ directories, interpreter }) =>
      victims.push({ directory: directories.own, pid: interpreter.pid }),
    onLine: () => ready.resolve(),
    answer: async () => {
      await attacked.promise
      return { value: '' }
    },
  })
  await ready.promise
  const [{ directory, pid } = { directory: '', pid: 0 }] = victims
  const { lines, outcome } = await bench.run(attack(directory, pid))
  attacked.resolve()
  const found = await victim
  return {
    tried: lines.length,
    reached: lines.filter((line) => !line.endsWith('"refused"]')),
    attacker: Object.keys(outcome)[0],
    victim: Object.keys(found.outcome)[0],
  }
}
