"""Takes from this process, for good, whatever the code it is about to run must not have.

Nothing here can be undone from inside: limits are hard, user ids have no way back, `no_new_privs`, Landlock and seccomp
are one-way by the kernel's own rules. Uses the standard library alone (ctypes), on Linux on x86_64 and aarch64.
"""

import ctypes
import errno
import os
import platform
import resource
import struct
import sys

# System calls by name: (x86_64, aarch64). None: the architecture has none. What is not listed is refused.
ALLOWED = {
    # files that are open, and paths: which of them may be opened is Landlock's to say
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62),
    "pread64": (17, 67), "pwrite64": (18, 68), "readv": (19, 65), "writev": (20, 66),
    "preadv": (295, 69), "pwritev": (296, 70), "preadv2": (327, 286), "pwritev2": (328, 287),
    "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "pipe": (22, None), "pipe2": (293, 59),
    "flock": (73, 32), "fsync": (74, 82), "fdatasync": (75, 83), "ftruncate": (77, 46), "fallocate": (285, 47),
    "fadvise64": (221, 223), "sync_file_range": (277, 84), "copy_file_range": (326, 285), "sendfile": (40, 71),
    "splice": (275, 76), "tee": (276, 77),
    "open": (2, None), "openat": (257, 56), "creat": (85, None), "getdents": (78, None), "getdents64": (217, 61),
    "stat": (4, None), "lstat": (6, None), "newfstatat": (262, 79), "statx": (332, 291), "access": (21, None),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78),
    "statfs": (137, 43), "fstatfs": (138, 44), "getcwd": (79, 17), "chdir": (80, 49), "fchdir": (81, 50),
    "umask": (95, 166), "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "unlink": (87, None),
    "unlinkat": (263, 35), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
    "link": (86, None), "linkat": (265, 37),
    # memory
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216),
    "madvise": (28, 233), "mincore": (27, 232), "msync": (26, 227), "membarrier": (324, 283),
    "pkey_alloc": (330, 289), "pkey_free": (331, 290), "pkey_mprotect": (329, 288), "get_mempolicy": (239, 236),
    # its own signals, and waiting
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136),
    "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128), "pause": (34, None), "alarm": (37, None),
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    "epoll_create": (213, None), "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None),
    "epoll_pwait": (281, 22), "epoll_pwait2": (441, 441), "eventfd": (284, None), "eventfd2": (290, 19),
    # threads and time
    "futex": (202, 98), "futex_waitv": (449, 449), "set_robust_list": (273, 99), "set_tid_address": (218, 96),
    "rseq": (334, 293), "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126),
    "getcpu": (309, 168), "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153),
    "getitimer": (36, 102), "setitimer": (38, 103), "timerfd_create": (283, 85), "timerfd_settime": (286, 86),
    "timerfd_gettime": (287, 87), "arch_prctl": (158, None),
    # what it may know about itself
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getpgid": (121, 155), "getsid": (124, 156),
    "getpgrp": (111, None), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176),
    "getegid": (108, 177), "getresuid": (118, 148), "getresgid": (120, 150), "getgroups": (115, 158),
    "getrusage": (98, 165), "getrlimit": (97, 163), "uname": (63, 160), "sysinfo": (99, 179),
    "getrandom": (318, 278), "getpriority": (140, 141),
    # the ends of a socketpair, which asyncio needs; no other socket can come to be
    "sendto": (44, 206), "recvfrom": (45, 207), "sendmsg": (46, 211), "recvmsg": (47, 212),
    "getsockopt": (55, 209), "setsockopt": (54, 208), "getsockname": (51, 204), "getpeername": (52, 205),
    "shutdown": (48, 210),
    # there are no children to wait for
    "wait4": (61, 260), "waitid": (247, 95), "exit": (60, 93), "exit_group": (231, 94),
}
# What changes modes and times of files by path or descriptor. Landlock does not judge it, so it is allowed only where
# the process owns no file but its own.
METADATA = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
}
# Allowed with certain arguments only.
SOCKETPAIR, CLONE, CLONE3 = (53, 199), (56, 220), (435, 435)
KILL, TGKILL, PRCTL, IOCTL, FCNTL = (62, 129), (234, 131), (157, 167), (16, 29), (72, 25)
PRLIMIT64, SCHED_SETAFFINITY = (302, 261), (203, 122)
SET_NO_NEW_PRIVS, SET_SECCOMP, SET_PDEATHSIG, SET_DUMPABLE, SET_NAME, GET_NAME, SET_VMA = 38, 22, 1, 4, 15, 16, 0x53564D41
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7), "arm64": (1, 0xC00000B7)}


class Unavailable(Exception):
    """This machine lacks something the sandbox is made of."""


def confine(spec):
    """Confines this process as told.

    `limits`: {resource name: value}. `user`: [uid, gid] to become, or None. `readable`, `writable`: absolute paths;
    `devices`: special files. `landlock`, `seccomp`: whether to use them (a missing one raises Unavailable).
    `owns_others`: whether files elsewhere belong to the same user.
    """
    for name, value in spec["limits"].items():
        limit_resource(name, value)
    # Paths are opened while they can be.
    ruleset = open_ruleset(spec) if spec["landlock"] else None
    if spec["user"] is not None:
        uid, gid = spec["user"]
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    prctl(libc, SET_NO_NEW_PRIVS, 1)
    # After the change of user, which forgets it.
    prctl(libc, SET_PDEATHSIG, 9)
    prctl(libc, SET_DUMPABLE, 0)
    if ruleset is not None:
        if libc.syscall(LANDLOCK_RESTRICT, ruleset, 0) != 0:
            raise Unavailable("Landlock: " + os.strerror(ctypes.get_errno()))
        os.close(ruleset)
    if spec["seccomp"]:
        install_filter(libc, spec["owns_others"])


def limit_resource(name, value):
    kind = getattr(resource, "RLIMIT_" + name, None)
    if kind is None:
        return
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    try:
        resource.setrlimit(kind, (value, value))
    except (ValueError, OSError):
        # Not every system has every limit (macOS has no RLIMIT_AS); Linux has all of them.
        if sys.platform == "linux":
            raise


def prctl(libc, option, argument):
    if libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        raise Unavailable("prctl: " + os.strerror(ctypes.get_errno()))


# ---- Landlock -----------------------------------------------------------------------------------------------------

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << n for n in range(6))
MAKE_DIR, MAKE_REG, REFER, TRUNCATE = 1 << 7, 1 << 8, 1 << 13, 1 << 14
READ = READ_FILE | READ_DIR
# No links, pipes, sockets or devices: what leads elsewhere must not come to be where the service looks.
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
# What each version of Landlock can judge.
FILE_ACCESS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
BIND_AND_CONNECT, ABSTRACT_SOCKETS_AND_SIGNALS = 3, 3


def open_ruleset(spec):
    libc = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        raise Unavailable("the kernel has no Landlock")
    handled = FILE_ACCESS[min(abi, 5)]
    attributes = struct.pack("=Q", handled)
    if abi >= 4:
        attributes += struct.pack("=Q", BIND_AND_CONNECT)
    if abi >= 6:
        attributes += struct.pack("=Q", ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = libc.syscall(LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        raise Unavailable("Landlock: " + os.strerror(ctypes.get_errno()))
    for path in spec["readable"]:
        add_rule(libc, ruleset, path, READ & handled)
    for path in spec["writable"]:
        add_rule(libc, ruleset, path, WRITE & handled)
    for path in spec["devices"]:
        add_rule(libc, ruleset, path, READ_FILE | WRITE_FILE)
    return ruleset


def add_rule(libc, ruleset, path, access):
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            access &= READ_FILE | WRITE_FILE | TRUNCATE
        rule = struct.pack("=Qi", access, place)
        if libc.syscall(LANDLOCK_ADD, ruleset, 1, rule, 0) != 0:
            raise Unavailable("Landlock: " + os.strerror(ctypes.get_errno()))
    finally:
        os.close(place)


# ---- seccomp ------------------------------------------------------------------------------------------------------

LOAD, EQUAL, GREATER_EQUAL, ANY_BIT, RETURN, AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
ALLOW, KILL_PROCESS, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCH, ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
X32_BIT = 0x40000000
CLONE_THREAD = 0x00010000
SOCK_TYPE_MASK, SOCK_STREAM, AF_UNIX = 0xF, 1, 1
# Whether it is a terminal, how much can be read, and close-on-exec.
IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# Who gets a signal when a file is ready: anybody of the same user.
FCNTL_REFUSED = (8, 10, 15)


def filter_program(owns_others, pid):
    """The filter as BPF instructions. What it refuses fails with EPERM; another architecture's call ends the process."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise Unavailable("no system call filter for " + machine)
    column, audit_arch = ARCHITECTURES[machine]
    refuse = REFUSE | errno.EPERM
    program = [(LOAD, 0, 0, ARCH), (EQUAL, 1, 0, audit_arch), (RETURN, 0, 0, KILL_PROCESS), (LOAD, 0, 0, NUMBER)]
    if column == 0:
        program += [(GREATER_EQUAL, 0, 1, X32_BIT), (RETURN, 0, 0, refuse)]

    def judged(call, body):
        """`body` decides about one call; it must end in a return whatever happens."""
        number = call[column]
        if number is not None:
            program.extend([(EQUAL, 0, len(body), number)] + body)

    def argument(index):
        # Both architectures are little-endian: the low half stands first.
        return (LOAD, 0, 0, ARGUMENT + 8 * index)

    def only(index, values):
        checks = [argument(index)]
        for place, value in enumerate(values):
            checks.append((EQUAL, len(values) - place, 0, value))
        return checks + [(RETURN, 0, 0, refuse), (RETURN, 0, 0, ALLOW)]

    def never(index, values):
        checks = [argument(index)]
        for place, value in enumerate(values):
            checks.append((EQUAL, len(values) - place, 0, value))
        return checks + [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, refuse)]

    calls = dict(ALLOWED)
    if not owns_others:
        calls.update(METADATA)
    for call in calls.values():
        judged(call, [(RETURN, 0, 0, ALLOW)])
    # Threads, not processes. Of clone3 the arguments cannot be seen: without it the C library falls back to clone.
    judged(CLONE, [argument(0), (ANY_BIT, 0, 1, CLONE_THREAD), (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, refuse)])
    judged(CLONE3, [(RETURN, 0, 0, REFUSE | errno.ENOSYS)])
    # A datagram socket could name another one to send to.
    judged(SOCKETPAIR, [
        argument(0), (EQUAL, 1, 0, AF_UNIX), (RETURN, 0, 0, refuse),
        argument(1), (AND, 0, 0, SOCK_TYPE_MASK), (EQUAL, 1, 0, SOCK_STREAM), (RETURN, 0, 0, refuse),
        (RETURN, 0, 0, ALLOW),
    ])
    judged(KILL, only(0, (pid,)))
    judged(TGKILL, only(0, (pid,)))
    judged(PRCTL, only(0, (SET_NAME, GET_NAME, SET_VMA)))
    judged(IOCTL, only(1, IOCTLS))
    judged(FCNTL, never(1, FCNTL_REFUSED))
    judged(PRLIMIT64, only(0, (0, pid)))
    judged(SCHED_SETAFFINITY, only(0, (0,)))
    program.append((RETURN, 0, 0, refuse))
    return program


def install_filter(libc, owns_others):
    instructions = filter_program(owns_others, os.getpid())
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    held = ctypes.create_string_buffer(code)

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    program = Program(len(instructions), ctypes.addressof(held))
    if libc.prctl(SET_SECCOMP, 2, ctypes.byref(program), 0, 0) != 0:
        raise Unavailable("seccomp: " + os.strerror(ctypes.get_errno()))
