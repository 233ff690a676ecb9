// Attempts of hostile code, as Python sources. SECRET, INPUTS, DATABASE and PARENT are their targets.

/** The messages of refused attempts. */
export const REFUSED =
  /Operation not permitted|Permission denied|a pipeline cannot|No such file|cross-device|Read-only|not allowed to raise|No module named/

/** The names that every attempt may use. */
const PROLOGUE = `
import ctypes, os, sys, errno
libc = ctypes.CDLL(None, use_errno=True)
def must(answer):
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer
`

export const ATTEMPTS: Record<string, string> = {
  // files
  'reads a file of the service': 'result = [{"a": open(SECRET).read()}]',
  'reads a file of the service by a relative path':
    'result = [{"a": open("../../../../../../../" + SECRET).read()}]',
  'reads a file of the service by system call': 'result = [{"a": must(libc.open(SECRET.encode(), 0))}]',
  'reads a file of the service by openat2':
    'result = [{"a": must(libc.syscall(437, -100, SECRET.encode(), (ctypes.c_uint64 * 3)(), 24))}]',
  'maps a file of the service into memory':
    'import mmap; result = [{"a": mmap.mmap(os.open(SECRET, os.O_RDONLY), 0)[:]}]',
  'reads the users of the machine': 'result = [{"a": open("/etc/shadow").read()}]',
  'reads the password file': 'result = [{"a": open("/etc/passwd").read()}]',
  'lists the root':
    'result = [{"a": str(os.listdir("/"))}] if "etc" in os.listdir("/") and "home" in os.listdir("/") else 1/0',
  'lists the directories of all runs':
    'result = [{"a": str(os.listdir(os.path.dirname(os.path.dirname(os.getcwd()))))}]',
  'lists the temporary directory': 'import tempfile; result = [{"a": str(os.listdir("/tmp"))}]',
  'writes a file of the service': 'open(SECRET, "w").write("x"); result = [{"a": 1}]',
  'truncates a file of the service': 'os.truncate(SECRET, 0); result = [{"a": 1}]',
  'removes a file of the service': 'os.unlink(SECRET); result = [{"a": 1}]',
  'renames a file of the service': 'os.rename(SECRET, "mine"); result = [{"a": 1}]',
  'makes a file of the service writable for all users': 'os.chmod(SECRET, 0o777); result = [{"a": 1}]',
  'changes the owner of a file of the service': 'os.chown(SECRET, os.getuid(), -1); result = [{"a": 1}]',
  'changes the times of a file of the service': 'os.utime(SECRET, (0, 0)); result = [{"a": 1}]',
  'writes into the temporary directory': 'open("/tmp/sluice-was-here", "w"); result = [{"a": 1}]',
  'writes into its input': 'open(os.path.join(INPUTS, "x"), "w"); result = [{"a": 1}]',
  'changes its own source': 'open(os.path.join(INPUTS, "pipeline.py"), "a").write("x"); result = [{"a": 1}]',
  'makes a symbolic link': 'os.symlink(SECRET, "link"); result = [{"a": open("link").read()}]',
  'makes a symbolic link by system call':
    'must(libc.symlink(SECRET.encode(), b"link")); result = [{"a": open("link").read()}]',
  'replaces the result by a symbolic link':
    'must(libc.symlink(SECRET.encode(), b".result")); result = [{"a": 1}]',
  'makes a hard link': 'os.link(SECRET, "link"); result = [{"a": open("link").read()}]',
  'makes a named pipe': 'os.mkfifo("pipe"); result = [{"a": 1}]',
  'makes a device': 'os.mknod("disk", 0o60666, os.makedev(254, 0)); result = [{"a": 1}]',
  'opens the disk': 'result = [{"a": str(open("/dev/vda", "rb").read(1))}]',
  'opens the memory of the machine': 'result = [{"a": str(open("/dev/mem", "rb").read(1))}]',
  'opens the terminal': 'result = [{"a": str(open("/dev/tty", "rb").fileno())}]',
  'makes an anonymous memory file': 'result = [{"a": must(libc.syscall(319, b"x", 0))}]',
  'opens a file in shared memory': 'open("/dev/shm/sluice-was-here", "w"); result = [{"a": 1}]',
  'leaves by its directory': 'os.chdir("/"); result = [{"a": str(os.listdir("/root"))}]',
  // processes
  'reads its own memory in /proc': 'result = [{"a": str(open("/proc/self/mem", "rb"))}]',
  'reads its environment in /proc': 'result = [{"a": open("/proc/self/environ").read()}]',
  'reads the environment of its parent': 'result = [{"a": open("/proc/%d/environ" % PARENT).read()}]',
  'reads the memory of its parent': 'result = [{"a": str(open("/proc/%d/mem" % PARENT, "rb"))}]',
  'lists descriptors of its parent': 'result = [{"a": str(os.listdir("/proc/%d/fd" % PARENT))}]',
  'follows the root of its parent': 'result = [{"a": str(os.listdir("/proc/%d/root/" % PARENT))}]',
  'lists processes': 'result = [{"a": str(os.listdir("/proc"))}]',
  'traces its parent': 'result = [{"a": must(libc.ptrace(16, PARENT, 0, 0))}]',
  'reads foreign memory by system call': 'result = [{"a": must(libc.syscall(310, PARENT, 0, 0, 0, 0, 0))}]',
  'duplicates a descriptor of its parent':
    'result = [{"a": must(libc.syscall(438, must(libc.syscall(434, PARENT, 0)), 0, 0))}]',
  'signals its parent': 'os.kill(PARENT, 15); result = [{"a": 1}]',
  'signals its parent by system call': 'must(libc.kill(PARENT, 0)); result = [{"a": 1}]',
  'signals its process group': 'must(libc.kill(0, 15)); result = [{"a": 1}]',
  'signals all processes': 'must(libc.kill(-1, 0)); result = [{"a": 1}]',
  'makes a file signal its parent':
    'import fcntl; fcntl.fcntl(2, fcntl.F_SETOWN, PARENT); result = [{"a": 1}]',
  'signals the first process': 'os.kill(1, 0); result = [{"a": 1}]',
  'signals a thread of its parent': 'must(libc.syscall(200, PARENT, 0)); result = [{"a": 1}]',
  'lowers the priority of its parent': 'os.setpriority(os.PRIO_PROCESS, PARENT, 19); result = [{"a": 1}]',
  'raises its own priority': 'os.nice(-20); result = [{"a": 1}]',
  'starts a session': 'os.setsid(); result = [{"a": 1}]',
  'slows its parent down': 'os.sched_setaffinity(PARENT, {0}); result = [{"a": 1}]',
  'limits its parent':
    'import resource; resource.prlimit(PARENT, resource.RLIMIT_NOFILE, (1, 1)); result = [{"a": 1}]',
  'starts a shell':
    'import subprocess; result = [{"a": subprocess.run(["/bin/sh", "-c", "id"], capture_output=True).stdout}]',
  'calls the shell': 'result = [{"a": must(-1 if os.system("id > /dev/null") else 0)}]',
  'forks a process': 'result = [{"a": os.fork()}]',
  'forks by system call': 'result = [{"a": must(libc.fork())}]',
  'forks by clone': 'result = [{"a": must(libc.syscall(56, 17, 0, 0, 0, 0))}]',
  'executes another program': 'os.execv("/bin/sh", ["sh"])',
  'executes another program by system call':
    'must(libc.execv(b"/bin/sh", (ctypes.c_char_p * 2)(b"sh", None))); result = [{"a": 1}]',
  'starts a process with multiprocessing':
    'import multiprocessing as m; m.get_context("fork").Process(target=print).start(); result = [{"a": 1}]',
  // network
  'opens a socket': 'import socket; socket.socket(); result = [{"a": 1}]',
  'connects to the database': 'import socket; socket.create_connection(DATABASE, 1); result = [{"a": 1}]',
  'fetches a page':
    'import urllib.request; urllib.request.urlopen("http://%s:%d/" % DATABASE, timeout=1); result = [{"a": 1}]',
  'opens a socket by system call': 'result = [{"a": must(libc.socket(2, 1, 0))}]',
  'opens a socket of version 6': 'import socket; socket.socket(socket.AF_INET6); result = [{"a": 1}]',
  'opens a datagram socket': 'result = [{"a": must(libc.socket(2, 2, 0))}]',
  'opens a socket to the hypervisor': 'result = [{"a": must(libc.socket(40, 1, 0))}]',
  'opens a raw socket': 'result = [{"a": must(libc.socket(17, 3, 0))}]',
  'opens a netlink socket': 'result = [{"a": must(libc.socket(16, 3, 0))}]',
  'opens a Unix socket': 'result = [{"a": must(libc.socket(1, 1, 0))}]',
  'makes a pair of datagram sockets':
    'result = [{"a": must(libc.socketpair(1, 2, 0, (ctypes.c_int * 2)()))}]',
  'resolves a host name': 'import socket; result = [{"a": socket.gethostbyname("localhost")}]',
  // the kernel
  'uses io_uring': 'result = [{"a": must(libc.syscall(425, 8, (ctypes.c_char * 120)()))}]',
  'loads a BPF program into the kernel':
    'result = [{"a": must(libc.syscall(321, 0, (ctypes.c_char * 72)(), 72))}]',
  'reads performance counters':
    'result = [{"a": must(libc.syscall(298, (ctypes.c_char * 120)(), 0, -1, -1, 0))}]',
  'handles page faults': 'result = [{"a": must(libc.syscall(323, 1))}]',
  'reads keys of the kernel': 'result = [{"a": must(libc.syscall(250, 0, -3, 1))}]',
  'makes namespaces': 'must(libc.unshare(0x10000000)); result = [{"a": 1}]',
  'enters namespaces': 'must(libc.setns(0, 0)); result = [{"a": 1}]',
  'mounts a file system': 'must(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)); result = [{"a": 1}]',
  'changes its root': 'must(libc.chroot(b"/")); result = [{"a": 1}]',
  'becomes root': 'must(libc.setresuid(0, 0, 0)); result = [{"a": 1}]',
  'joins groups': 'os.setgroups([0]); result = [{"a": 1}]',
  'uses 32-bit calls': 'must(libc.syscall(0x40000000 | 39)); result = [{"a": 1}]',
  'removes its parent-death signal': 'must(libc.prctl(1, 0, 0, 0, 0)); result = [{"a": 1}]',
  'lets itself be traced': 'must(libc.prctl(4, 1, 0, 0, 0)); result = [{"a": 1}]',
  'raises its limits':
    'import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)); result = [{"a": 1}]',
  'raises its limit of processor time':
    'import resource; resource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6)); result = [{"a": 1}]',
  'types into a terminal': 'must(libc.ioctl(2, 0x5412, b"x")); result = [{"a": 1}]',
  'sets the clock': 'import time; time.clock_settime(time.CLOCK_REALTIME, 0); result = [{"a": 1}]',
  'renames the machine': 'import socket; socket.sethostname("x"); result = [{"a": 1}]',
  'opens shared memory': 'result = [{"a": must(libc.shmget(1, 4096, 0o1666))}]',
  // ways around the checks in Python
  'removes the checks by reloading a module':
    'import importlib, socket; importlib.reload(socket); socket.socket(); result = [{"a": 1}]',
  'changes the module of the service':
    'import interpreter; interpreter.REFUSED.clear(); os.fork(); result = [{"a": 1}]',
  'reaches open() through the classes of the interpreter':
    'wrap = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == "_wrap_close"][0]; wrap.__init__.__globals__["open"](SECRET, 0)',
  'imports a module from outside the sandbox':
    'sys.path.insert(0, os.path.dirname(SECRET)); import canary; result = [{"a": canary.a}]',
  'loads a library from outside the sandbox': 'ctypes.CDLL(SECRET); result = [{"a": 1}]',
}

interface Targets {
  secret: string
  /** A port of loopback with a listener. */
  port: number
  /** A Python expression for the process that the attempts try to end. */
  parent?: string
}

/** Runs all attempts in one process, each with its own names. Prints each outcome as a line of JSON. */
export const attemptsSource = ({ secret, port, parent = String(process.pid) }: Targets) => `${PROLOGUE}
import json
names = dict(
    SECRET=${JSON.stringify(secret)}, INPUTS=os.path.join(os.path.dirname(os.getcwd()), "run", "in"),
    DATABASE=("127.0.0.1", ${port}), PARENT=${parent}, os=os, sys=sys, ctypes=ctypes, libc=libc, must=must,
)
for name, source in json.loads(${JSON.stringify(JSON.stringify(ATTEMPTS))}).items():
    try:
        exec(source, dict(names))
        outcome = "NOT REFUSED"
    except BaseException as error:
        outcome = type(error).__name__ + ": " + str(error)
    print(json.dumps([name, outcome]))
result = [{"done": True}]
`
