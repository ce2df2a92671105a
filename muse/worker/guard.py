"""The guard: a tiny process between the main process and a worker, so that no worker is ever orphaned.

Standard library only, and run by path with `-I -S` so that it starts in a few milliseconds. It leads the
process group in which the worker and everything the worker starts live, and ends that group with SIGKILL
when the life pipe ends (the main process died, however) or when the worker is gone. A thread in the worker
could do neither: a native call may hold the GIL, a stopped process runs no thread.

Contract:
- The main process starts `command(...)` as a new process group (`process_group=0`, no new session: a
  session leader could not leave its group at the end) with the read end of the life pipe passed on, and
  keeps the write end to itself. Anything readable on the pipe, its end included, means: kill.
- The worker gets the guard's stdin, stdout and stderr as they are. The guard lets go of its own copies of
  the first two, so that an end of file passes between main process and worker directly.
- SIGTERM, SIGINT and SIGHUP sent to the group reach the worker; the guard ignores them and waits.
- The guard ends as the worker ended: with the same exit code, or by the same signal.
  127: the worker could not be started. 126: the system refuses a process now; another try may work. 125: the guard
  was started wrongly.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import sys

START_FAILED = 127
START_REFUSED = 126
REFUSALS = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
USAGE_FAULT = 125


def command(worker: list[str], *, life_fd: int) -> list[str]:
    """Command line of a guard for the command `worker` (absolute path of the program first)."""
    here = os.path.abspath(__file__)  # noqa: PTH100 (pathlib would double the start time)
    return [sys.executable, "-I", "-S", here, "--life-fd", str(life_fd), "--", *worker]


def main(arguments: list[str]) -> None:
    """Run a guard. Does not return."""
    life_fd, worker = _parse(arguments)
    try:
        # The worker must not hold the life pipe, nor the pipe that wakes us.
        os.set_inheritable(life_fd, False)
        child_ended, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        # Handlers, not SIG_IGN: exec resets a handler to the default, but would hand SIG_IGN to the worker.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _woken)
        if os.getpgid(0) != os.getpid():
            os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        # A core file would hold conversations, in whatever folder the server was started from. The soft limit alone:
        # who looks for a fault can raise it again in the worker.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        pid = os.posix_spawn(worker[0], worker, os.environ)
    except OSError as fault:
        _complain(f"cannot start {worker[0]}: {fault}")
        os._exit(START_REFUSED if fault.errno in REFUSALS else START_FAILED)
    _let_go_of_pipes(null)
    status = _wait(pid, life_fd, child_ended)
    _kill_others()
    _end_like(status)


def _parse(arguments: list[str]) -> tuple[int, list[str]]:
    if len(arguments) < 4 or arguments[0] != "--life-fd" or arguments[2] != "--":
        _complain("usage: guard.py --life-fd N -- PROGRAM [ARGUMENT...]")
        os._exit(USAGE_FAULT)
    try:
        life_fd = int(arguments[1])
        os.fstat(life_fd)
    except (ValueError, OSError) as fault:
        _complain(f"--life-fd {arguments[1]}: {fault}")
        os._exit(USAGE_FAULT)
    if os.getsid(0) == os.getpid():
        _complain("start the guard as a process group of its own, not as a session")
        os._exit(USAGE_FAULT)
    return life_fd, arguments[3:]


def _woken(_number: int, _frame: object) -> None:
    """The wake-up descriptor has done the work."""


def _let_go_of_pipes(null: int) -> None:
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


def _wait(pid: int, life_fd: int, child_ended: int) -> int:
    """Wait for the worker and return its wait status; kill everything if the life pipe ends first."""
    poll = select.poll()
    poll.register(life_fd, select.POLLIN)
    poll.register(child_ended, select.POLLIN)
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        for fd, _events in poll.poll():
            if fd == life_fd:
                os.killpg(0, signal.SIGKILL)  # takes this process with it
            else:
                os.read(child_ended, 4096)


def _kill_others() -> None:
    """Kill what the worker left behind in the group, without this process: it first moves to the group of
    a short-lived child. Where that cannot be done, with this process: that nobody is left counts more than how the
    worker ended."""
    group = os.getpgid(0)
    try:
        hold_read, hold_write = os.pipe()
        helper = os.fork()
        if helper == 0:
            os.close(hold_write)
            os.read(hold_read, 1)
            os._exit(0)
        os.setpgid(helper, helper)
        os.setpgid(0, helper)
    except OSError:
        os.killpg(group, signal.SIGKILL)
        return
    # Nobody was left: ESRCH, and EPERM on macOS where the rest are zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    os.close(hold_write)
    os.waitpid(helper, 0)


def _end_like(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        code = 128 - code  # not reached: every signal that ends a process ends this one
    os._exit(code)


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more, and what comes next matters more
        os.write(2, f"muse guard: {text}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
