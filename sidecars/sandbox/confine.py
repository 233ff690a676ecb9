"""Permanently removes rights from this process before it executes code of users.

The process cannot undo any of this: limits are hard, the change of user is final, and the kernel makes
`no_new_privs`, Landlock and seccomp irrevocable. Uses only the standard library (ctypes), on Linux on x86_64
and aarch64.
"""

import ctypes
import os
import platform
import resource
import struct
import sys

SET_NO_NEW_PRIVS, SET_SECCOMP, SET_PDEATHSIG, SET_DUMPABLE = 38, 22, 1, 4
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
# Names of each architecture in platform.machine().
MACHINES = {"x64": ("x86_64",), "arm64": ("aarch64", "arm64")}


class Unavailable(Exception):
    """This machine lacks a feature that the sandbox needs."""


def confine(spec):
    """Confines this process. Raises Unavailable if this machine lacks a requested feature.

    - `limits`: {resource name: value}
    - `user`: the new [uid, gid], or None
    - `readable`, `writable`: absolute paths
    - `devices`: special files
    - `landlock`: whether to use Landlock
    - `seccomp`: the filter and its architecture, or None
    - `isOpenToItsUser`: whether the user of this process may read its /proc directory
    """
    for name, value in spec["limits"].items():
        limit_resource(name, value)
    # Opens paths now, because later restrictions forbid it.
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
    # Comes after the change of user, which resets this setting.
    prctl(libc, SET_PDEATHSIG, 9)
    prctl(libc, SET_DUMPABLE, 1 if spec["isOpenToItsUser"] else 0)
    if ruleset is not None:
        if libc.syscall(LANDLOCK_RESTRICT, ruleset, 0) != 0:
            raise Unavailable("Landlock: " + os.strerror(ctypes.get_errno()))
        os.close(ruleset)
    if spec["seccomp"] is not None:
        install_filter(libc, spec["seccomp"])


def limit_resource(name, value):
    kind = getattr(resource, "RLIMIT_" + name, None)
    if kind is None:
        return
    _, hard = resource.getrlimit(kind)
    # With equal limits the kernel kills at once, and the cause would be unknown.
    most = value + 1 if name == "CPU" else value
    if hard != resource.RLIM_INFINITY:
        value, most = min(value, hard), min(most, hard)
    try:
        resource.setrlimit(kind, (value, most))
    except (ValueError, OSError):
        # Some systems lack a limit (macOS has no RLIMIT_AS). Linux has all of them.
        if sys.platform == "linux":
            raise


def prctl(libc, option, argument):
    if libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        raise Unavailable("prctl: " + os.strerror(ctypes.get_errno()))


# ---- Landlock -----------------------------------------------------------------------------------------------------

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << n for n in range(6))
MAKE_DIR, MAKE_REG, REFER, TRUNCATE = 1 << 7, 1 << 8, 1 << 13, 1 << 14
READ = READ_FILE | READ_DIR
# Links, pipes, sockets and devices are forbidden: a path that leads elsewhere must not appear where the
# service reads.
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
# File access rights that each version of Landlock can check.
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


def install_filter(libc, seccomp):
    """Installs the filter of the spec (system-calls.ts). Refused calls fail with EPERM."""
    machine = platform.machine()
    if seccomp["program"] is None or machine not in MACHINES[seccomp["architecture"]]:
        raise Unavailable("no system call filter for " + machine)
    pid = os.getpid()
    code = b"".join(
        struct.pack("=HBBI", operation, yes, no, pid if operand == "pid" else operand)
        for operation, yes, no, operand in seccomp["program"]
    )
    held = ctypes.create_string_buffer(code)

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    program = Program(len(seccomp["program"]), ctypes.addressof(held))
    if libc.prctl(SET_SECCOMP, 2, ctypes.byref(program), 0, 0) != 0:
        raise Unavailable("seccomp: " + os.strerror(ctypes.get_errno()))
