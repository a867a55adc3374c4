"""Which processes of a cluster run, and how they are started and ended.

Every process has a file that says its id, when it started and in which boot of the machine. An id
is used again by other programs: only a process that matches all three is ours and is ever ended.
"""

import contextlib
import hashlib
import json
import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster.command import wait_for, without_proxy
from e2e.cluster.errors import ClusterError

_TERM_DEADLINE_S = 10
_KILL_DEADLINE_S = 10
_SHOWN_LOG_BYTES = 1500
_ENDED = ("Z", "X")
"""States of a zombie and of the dead, proc(5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process we started."""

    pid: int
    started_ticks: int
    """Clock ticks between the machine's boot and its start (proc(5), field 22 of stat)."""
    boot_id: str
    command: list[str]
    configuration: str
    """Digest of the files that it read at its start; empty if there are none."""

    @property
    def alive(self) -> bool:
        """Whether this very process runs; a zombie or another one with its id does not count."""
        return self.exists and _stat(self.pid)[0] not in _ENDED

    @property
    def exists(self) -> bool:
        """The same, but a zombie counts."""
        return self.boot_id == _boot_id() and _stat(self.pid)[1] == self.started_ticks

    def reap(self) -> None:
        """Let its zombie go, if it is a child of this very program."""
        if self.exists:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, os.WNOHANG)


class Processes:
    """The processes of one cluster, kept in a folder of small files."""

    def __init__(self, *, state: Path) -> None:
        self._files = state / "processes"
        self._logs = state / "logs"

    def start(
        self, name: str, command: Sequence[str | Path], *, configured_by: Sequence[Path] = ()
    ) -> Process:
        """Start a process in a session of its own, or keep the one that runs this very command.

        One that runs another command, or whose configuration files changed, is replaced. Its
        output goes to ``logs/NAME.log``. Raises ClusterError if it can't be executed.
        """
        words = [str(word) for word in command]
        files = b"".join(file.read_bytes() for file in configured_by)
        configuration = hashlib.sha256(files).hexdigest() if configured_by else ""
        running = self.get(name)
        if running is not None and running.alive:
            if (running.command, running.configuration) == (words, configuration):
                return running
            self.stop(name)
        self._files.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        pid = self._spawn(name, words)
        # The zombie of one that ended at once is there until this program reaps it.
        process = Process(
            pid=pid,
            started_ticks=_stat(pid)[1],
            boot_id=_boot_id(),
            command=words,
            configuration=configuration,
        )
        self._file(name).write_text(json.dumps(asdict(process)) + "\n")
        return process

    def get(self, name: str) -> Process | None:
        """What was started under a name, alive or not."""
        file = self._file(name)
        return Process(**json.loads(file.read_text())) if file.exists() else None

    def names(self) -> list[str]:
        """Every process that was started and not stopped since."""
        return sorted(file.stem for file in self._files.glob("*.json"))

    def check_alive(self, name: str) -> None:
        """Raise ClusterError with the end of its log if the process ended by itself."""
        process = self.get(name)
        if process is None or not process.alive:
            raise ClusterError(f"{name} ended by itself; the end of its log:\n{self.log_end(name)}")

    def log_end(self, name: str) -> str:
        """The last lines that a process wrote."""
        log = self._logs / f"{name}.log"
        text = log.read_bytes()[-_SHOWN_LOG_BYTES:].decode(errors="replace") if log.exists() else ""
        return f"{text.strip()}\n(all of it: {log})"

    def stop(self, name: str) -> None:
        """End a process and wait until it is gone: politely first, then by force."""
        process = self.get(name)
        if process is not None:
            try:
                _end({name: process}, signal.SIGTERM, deadline_s=_TERM_DEADLINE_S)
            except ClusterError:
                _end({name: process}, signal.SIGKILL, deadline_s=_KILL_DEADLINE_S)
        self._file(name).unlink(missing_ok=True)

    def kill_all(self) -> None:
        """End all at once by force: for a cluster whose data goes away too, where manners cost 15 s."""
        processes = {name: process for name in self.names() if (process := self.get(name)) is not None}
        _end(processes, signal.SIGKILL, deadline_s=_KILL_DEADLINE_S)
        for name in processes:
            self._file(name).unlink()

    def _file(self, name: str) -> Path:
        return self._files / f"{name}.json"

    def _spawn(self, name: str, words: list[str]) -> int:
        log = self._logs / f"{name}.log"
        with log.open("a") as file:
            file.write(f"$ {shlex.join(words)}\n")
        try:
            return os.posix_spawn(
                words[0],
                words,
                without_proxy(),
                setsid=True,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_APPEND, 0),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
            )
        except OSError as error:
            raise ClusterError(f"{name} can't be started: {words[0]}: {error.strerror}") from error


def _end(processes: Mapping[str, Process], sent: signal.Signals, *, deadline_s: float) -> None:
    for process in processes.values():
        _send(process, sent)
    wait_for(f"the end of {', '.join(processes)}", lambda: _living(processes), deadline_s=deadline_s)


def _send(process: Process, sent: signal.Signals) -> None:
    """Signal a process if it is still the one we started; its file descriptor can't change hands."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if process.alive:
            signal.pidfd_send_signal(descriptor, sent)
    except ProcessLookupError:
        pass  # it ended in between, which is what we want
    finally:
        os.close(descriptor)


def _living(processes: Mapping[str, Process]) -> str | None:
    for process in processes.values():
        process.reap()
    living = [f"{name} ({process.pid})" for name, process in processes.items() if process.alive]
    return f"still alive: {', '.join(living)}" if living else None


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int) -> tuple[str, int]:
    """State of a process and when it started; ``("X", -1)`` if there is none with that id."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X", -1
    # The second field is the program's name in parentheses and may hold anything.
    state, *fields = stat.rpartition(")")[2].split()
    return state, int(fields[18])
