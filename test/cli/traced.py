"""The program, stopped as it enters one of its system calls."""
import ctypes
import os
import signal
import sys

from support import HEADROOM

TRACEME, SYSCALL = 0, 24
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def stopped_at(arguments, cwd, number, act):
    """Runs the program; when it enters its system call `number` it stands still while `act` is called with its id, then it goes
    on. Its exit code (of a signal, below 0) and how many calls it made."""
    child = os.fork()
    if child == 0:
        null = os.open('/dev/null', os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.chdir(cwd)
        if libc.ptrace(TRACEME, 0, None, None) != 0:
            os._exit(77)
        os.execv(HEADROOM, [HEADROOM, *arguments])
    calls, inside = 0, False
    while True:
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            code = os.waitstatus_to_exitcode(status)
            if code == 77:
                print('ptrace is not allowed here')
                sys.exit(77)
            return code, calls
        if os.WSTOPSIG(status) == signal.SIGTRAP:
            inside = not inside
            if inside:
                if calls == number:
                    act(child)
                calls += 1
        libc.ptrace(SYSCALL, child, None, None)
