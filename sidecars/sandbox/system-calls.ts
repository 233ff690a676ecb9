import { constants } from 'node:os'

// The system calls that processes with code of users may make, and the filter (seccomp) that refuses all others. The filter is
// a list of instructions for the kernel. Its installer inserts the id of the process.

/** The number of a system call on x64 and on arm64. Null means that the architecture lacks the call. */
type Call = readonly [x64: number | null, arm64: number | null]

/** Every other call is refused. */
const ALLOWED: Record<string, Call> = {
  // Open files and paths. Landlock decides which of them may be opened.
  read: [0, 63],
  write: [1, 64],
  close: [3, 57],
  fstat: [5, 80],
  lseek: [8, 62],
  pread64: [17, 67],
  pwrite64: [18, 68],
  readv: [19, 65],
  writev: [20, 66],
  preadv: [295, 69],
  pwritev: [296, 70],
  preadv2: [327, 286],
  pwritev2: [328, 287],
  dup: [32, 23],
  dup2: [33, null],
  dup3: [292, 24],
  pipe: [22, null],
  pipe2: [293, 59],
  flock: [73, 32],
  fsync: [74, 82],
  fdatasync: [75, 83],
  ftruncate: [77, 46],
  fadvise64: [221, 223],
  sync_file_range: [277, 84],
  copy_file_range: [326, 285],
  sendfile: [40, 71],
  splice: [275, 76],
  tee: [276, 77],
  open: [2, null],
  openat: [257, 56],
  creat: [85, null],
  getdents: [78, null],
  getdents64: [217, 61],
  stat: [4, null],
  lstat: [6, null],
  newfstatat: [262, 79],
  statx: [332, 291],
  access: [21, null],
  faccessat: [269, 48],
  faccessat2: [439, 439],
  readlink: [89, null],
  readlinkat: [267, 78],
  statfs: [137, 43],
  fstatfs: [138, 44],
  getcwd: [79, 17],
  chdir: [80, 49],
  fchdir: [81, 50],
  umask: [95, 166],
  mkdir: [83, null],
  mkdirat: [258, 34],
  rmdir: [84, null],
  unlink: [87, null],
  unlinkat: [263, 35],
  rename: [82, null],
  renameat: [264, 38],
  renameat2: [316, 276],
  link: [86, null],
  linkat: [265, 37],
  // Memory.
  mmap: [9, 222],
  mprotect: [10, 226],
  munmap: [11, 215],
  brk: [12, 214],
  mremap: [25, 216],
  madvise: [28, 233],
  mincore: [27, 232],
  msync: [26, 227],
  membarrier: [324, 283],
  pkey_alloc: [330, 289],
  pkey_free: [331, 290],
  pkey_mprotect: [329, 288],
  get_mempolicy: [239, 236],
  // The process's own signals, and waiting.
  rt_sigaction: [13, 134],
  rt_sigprocmask: [14, 135],
  rt_sigreturn: [15, 139],
  rt_sigpending: [127, 136],
  rt_sigsuspend: [130, 133],
  rt_sigtimedwait: [128, 137],
  sigaltstack: [131, 132],
  restart_syscall: [219, 128],
  pause: [34, null],
  alarm: [37, null],
  poll: [7, null],
  ppoll: [271, 73],
  select: [23, null],
  pselect6: [270, 72],
  epoll_create: [213, null],
  epoll_create1: [291, 20],
  epoll_ctl: [233, 21],
  epoll_wait: [232, null],
  epoll_pwait: [281, 22],
  epoll_pwait2: [441, 441],
  eventfd: [284, null],
  eventfd2: [290, 19],
  // Threads and time.
  futex: [202, 98],
  futex_waitv: [449, 449],
  set_robust_list: [273, 99],
  set_tid_address: [218, 96],
  rseq: [334, 293],
  sched_yield: [24, 124],
  sched_getaffinity: [204, 123],
  sched_getparam: [143, 121],
  sched_getscheduler: [145, 120],
  sched_get_priority_max: [146, 125],
  sched_get_priority_min: [147, 126],
  getcpu: [309, 168],
  nanosleep: [35, 101],
  clock_nanosleep: [230, 115],
  clock_gettime: [228, 113],
  clock_getres: [229, 114],
  gettimeofday: [96, 169],
  time: [201, null],
  times: [100, 153],
  getitimer: [36, 102],
  setitimer: [38, 103],
  timerfd_create: [283, 85],
  timerfd_settime: [286, 86],
  timerfd_gettime: [287, 87],
  arch_prctl: [158, null],
  // Facts about the process itself.
  getpid: [39, 172],
  getppid: [110, 173],
  gettid: [186, 178],
  getpgid: [121, 155],
  getsid: [124, 156],
  getpgrp: [111, null],
  getuid: [102, 174],
  geteuid: [107, 175],
  getgid: [104, 176],
  getegid: [108, 177],
  getresuid: [118, 148],
  getresgid: [120, 150],
  getgroups: [115, 158],
  getrusage: [98, 165],
  getrlimit: [97, 163],
  uname: [63, 160],
  sysinfo: [99, 179],
  getrandom: [318, 278],
  getpriority: [140, 141],
  // The ends of a socketpair, which asyncio needs. No other socket can be created.
  sendto: [44, 206],
  recvfrom: [45, 207],
  recvmsg: [47, 212],
  getsockopt: [55, 209],
  setsockopt: [54, 208],
  getsockname: [51, 204],
  getpeername: [52, 205],
  shutdown: [48, 210],
  // The process has no children, so these calls wait for nothing.
  wait4: [61, 260],
  waitid: [247, 95],
  exit: [60, 93],
  exit_group: [231, 94],
}

/**
 * Calls that change modes and times of files by path or descriptor. Landlock does not check them. So they are allowed only if
 * every other file belongs to another user.
 */
const METADATA: Record<string, Call> = {
  chmod: [90, null],
  fchmod: [91, 52],
  fchmodat: [268, 53],
  fchmodat2: [452, 452],
  utime: [132, null],
  utimes: [235, null],
  futimesat: [261, null],
  utimensat: [280, 88],
}

/** Sends open files over a socket. Files in transit appear in no table of open files. */
const SENDMSG: Record<string, Call> = { sendmsg: [46, 211] }

// Calls that are allowed with certain arguments only.
const SOCKETPAIR: Call = [53, 199]
const CLONE: Call = [56, 220]
const CLONE3: Call = [435, 435]
const KILL: Call = [62, 129]
const TGKILL: Call = [234, 131]
const PRCTL: Call = [157, 167]
const IOCTL: Call = [16, 29]
const FCNTL: Call = [72, 25]
const PRLIMIT64: Call = [302, 261]
const SCHED_SETAFFINITY: Call = [203, 122]
const FALLOCATE: Call = [285, 47]

const PR_SET_NAME = 15
const PR_GET_NAME = 16
const PR_SET_VMA = 0x53564d41
const CLONE_FILES = 0x00000400
const CLONE_THREAD = 0x00010000
const SOCKET_TYPE = 0xf
const AF_UNIX = 1
const SOCK_STREAM = 1
/**
 * Modes that extend a file and punch holes. Other modes allocate space beyond the file's end, where no file size limit applies.
 */
const FALLOCATE_MODES = [0, 3]
/** Tests for a terminal, the count of readable bytes, and close-on-exec. */
const IOCTLS = [0x5401, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451]
/**
 * Commands that choose the process which gets a signal when a file is ready. They could choose any process of the same user.
 */
const FCNTL_REFUSED = [8, 10, 15]

/** Placeholder for the id of the process, which is known only inside it. */
export const OWN_PID = 'pid'
/** A BPF instruction: code, jump if true, jump if false, operand. */
export type Instruction = readonly [code: number, yes: number, no: number, operand: number | typeof OWN_PID]

const LOAD = 0x20
const EQUAL = 0x15
const AT_LEAST = 0x35
const ANY_BIT = 0x45
const RETURN = 0x06
const AND = 0x54
const ALLOW = 0x7fff0000
const KILL_PROCESS = 0x80000000
const FAIL_WITH = 0x00050000
const { EPERM, ENOSYS } = constants.errno
/** Offsets in `struct seccomp_data`. */
const NUMBER = 0
const ARCHITECTURE = 4
const ARGUMENTS = 16
const X32_BIT = 0x40000000

const ARCHITECTURES: Record<string, { column: 0 | 1; audit: number }> = {
  x64: { column: 0, audit: 0xc000003e },
  arm64: { column: 1, audit: 0xc00000b7 },
}

const refuse: Instruction = [RETURN, 0, 0, FAIL_WITH | EPERM]
const allow: Instruction = [RETURN, 0, 0, ALLOW]
/** Loads the low half of an argument, which comes first because both architectures are little-endian. */
const argument = (index: number): Instruction => [LOAD, 0, 0, ARGUMENTS + 8 * index]

type Operand = Instruction[3]

function oneOf(index: number, values: readonly Operand[], otherwise: Instruction, then: Instruction) {
  const checks = values.map((value, place): Instruction => [EQUAL, values.length - place, 0, value])
  return [argument(index), ...checks, otherwise, then]
}
const only = (index: number, values: readonly Operand[]) => oneOf(index, values, refuse, allow)
const never = (index: number, values: readonly Operand[]) => oneOf(index, values, allow, refuse)

/**
 * Returns the filter for a process on this architecture (process.arch), or null if the architecture has none. Refused calls
 * fail with EPERM. A call of another architecture ends the process. `ownsOthers` says whether the user of the process owns
 * other files. `passesFiles` says whether the process may send open files over a socket.
 */
export function filterProgram(
  architecture: string,
  { ownsOthers, passesFiles }: { ownsOthers: boolean; passesFiles: boolean },
): Instruction[] | null {
  const found = ARCHITECTURES[architecture]
  if (found === undefined) return null
  const { column, audit } = found
  /** Applies `body` to one call. Every path through `body` must end in a return. */
  const ruleFor = (call: Call, body: readonly Instruction[]): readonly Instruction[] => {
    const number = call[column]
    return number === null ? [] : [[EQUAL, 0, body.length, number], ...body]
  }
  return [
    [LOAD, 0, 0, ARCHITECTURE],
    [EQUAL, 1, 0, audit],
    [RETURN, 0, 0, KILL_PROCESS],
    [LOAD, 0, 0, NUMBER],
    ...(column === 0 ? [[AT_LEAST, 0, 1, X32_BIT] as const, refuse] : []),
    ...Object.values({
      ...ALLOWED,
      ...(ownsOthers ? {} : METADATA),
      ...(passesFiles ? SENDMSG : {}),
    }).flatMap((call) => ruleFor(call, [allow])),
    // Allows threads that share the table of open files, and no processes. A filter cannot read the arguments of clone3.
    // Without clone3 the C library falls back to clone.
    ...ruleFor(CLONE, [
      argument(0),
      [ANY_BIT, 0, 2, CLONE_THREAD],
      [ANY_BIT, 0, 1, CLONE_FILES],
      allow,
      refuse,
    ]),
    ...ruleFor(CLONE3, [[RETURN, 0, 0, FAIL_WITH | ENOSYS]]),
    // A datagram socket could send to any other socket by name.
    ...ruleFor(SOCKETPAIR, [
      argument(0),
      [EQUAL, 1, 0, AF_UNIX],
      refuse,
      argument(1),
      [AND, 0, 0, SOCKET_TYPE],
      [EQUAL, 1, 0, SOCK_STREAM],
      refuse,
      allow,
    ]),
    ...ruleFor(FALLOCATE, only(1, FALLOCATE_MODES)),
    ...ruleFor(KILL, only(0, [OWN_PID])),
    ...ruleFor(TGKILL, only(0, [OWN_PID])),
    ...ruleFor(PRCTL, only(0, [PR_SET_NAME, PR_GET_NAME, PR_SET_VMA])),
    ...ruleFor(IOCTL, only(1, IOCTLS)),
    ...ruleFor(FCNTL, never(1, FCNTL_REFUSED)),
    ...ruleFor(PRLIMIT64, only(0, [0, OWN_PID])),
    ...ruleFor(SCHED_SETAFFINITY, only(0, [0])),
    refuse,
  ]
}
