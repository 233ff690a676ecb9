// Ways to use more disk than the limit while the visible files stay below the limit.

const PROLOGUE = `
import mmap, os, time
MIB = bytes(1 << 20)
def fill(name, mib=7):
    with open(name, "wb", buffering=0) as f:
        for _ in range(mib):
            f.write(MIB)
def on():
    # The kernel refuses, or the process is ended.
    while True:
        time.sleep(0.05)
`

/** Each attempt uses about 100 MiB in files of 7 MiB, and then waits to be ended. */
export const DISK_ATTEMPTS: Record<string, string> = {
  'plain files': 'for n in range(15): fill(str(n))',
  'removed files that are open': `
held = []
for n in range(15):
    f = open("a", "wb", buffering=0)
    for _ in range(7): f.write(MIB)
    os.unlink("a")
    held.append(f)`,
  'files without a name': `
held = [os.open(".", os.O_TMPFILE | os.O_RDWR) for _ in range(15)]
for f in held:
    for _ in range(7): os.write(f, MIB)`,
  'removed files that are mapped': `
held = []
for n in range(15):
    fill("a")
    f = os.open("a", os.O_RDWR)
    held.append(mmap.mmap(f, 4096))
    os.close(f)
    os.unlink("a")`,
  'files in closed directories': `
for n in range(15):
    name = "d%d" % n
    os.mkdir(name, 0o300)
    os.mkdir(name + "/e", 0o300)
    fill(name + "/e/a")`,
  'files beyond PATH_MAX': `
home = os.open(".", os.O_RDONLY)
for n in range(60):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
for n in range(15): fill(str(n))
os.fchdir(home)`,
  'blocks beyond the end of a file': `
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
f = os.open("a", os.O_CREAT | os.O_RDWR)
if libc.fallocate(f, 1, ctypes.c_long(0), ctypes.c_long(100 << 20)) != 0:
    raise OSError(errno.ENOSPC, "No space left on device: refused")
`,
  'blocks beyond the end of the result file': `
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
f = os.open(".result", os.O_CREAT | os.O_RDWR)
if libc.fallocate(f, 1, ctypes.c_long(0), ctypes.c_long(100 << 20)) != 0:
    raise OSError(errno.ENOSPC, "No space left on device: refused")
`,
  '4,000 empty files': `
for n in range(4000):
    os.close(os.open("f%d" % n, os.O_CREAT | os.O_WRONLY))`,
}

export const diskSource = (attempt: string) =>
  `${PROLOGUE}\n${DISK_ATTEMPTS[attempt]}\non()\nresult = [{"a": 1}]`

/** A thread with its own file table would hold files that the runner cannot see. */
export const HIDDEN_HOLDERS: Record<string, string> = {
  'a thread with its own table of open files': `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
# CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, without CLONE_FILES, and with a stack that ends it at once
answer = libc.syscall(56, 0x10900, 0, 0, 0, 0)
if answer != -1 or ctypes.get_errno() != 1: raise SystemExit("NOT REFUSED")`,
  'another table of open files for itself': `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x400) != -1 or ctypes.get_errno() != 1: raise SystemExit("NOT REFUSED")`,
}
/** For sandbox steps that count removed files one by one. */
export const PASSED_ON = `
import socket, os
a, b = socket.socketpair()
try:
    socket.send_fds(a, [b"x"], [os.open("a", os.O_CREAT | os.O_RDWR)])
    raise SystemExit("NOT REFUSED")
except PermissionError:
    pass
result = [{"a": 1}]`
