"""One node's connection: opened by the first proof that needs it, shared by all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from nodeprep.errors import NodeprepError

GRACE_S = 1.0  # the least that a command is given; a proof with less left is out of time


class Unknown(Exception):
    """Something could not be measured. `action` says what to do about it."""

    def __init__(self, reason: str, *, action: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.action = action


class Ran(Protocol):
    """What came of a command; `nodeprep.remote.Result` is one."""

    @property
    def rc(self) -> int: ...
    @property
    def stdout(self) -> str: ...
    @property
    def stderr(self) -> str: ...
    @property
    def timed_out(self) -> bool: ...


class Runs(Protocol):
    """What runs commands on the node; `nodeprep.remote.Remote` does.

    It must end the command on the node, too, when the time is over.
    """

    def run(self, command: str, *, sudo: bool, timeout_s: float) -> Ran: ...
    def close(self) -> None: ...


class NodeSession:
    """Runs commands within the time that the proof at hand has left.

    A node that could not be reached is not tried again: each later command fails at once.
    `keep` is given every command and what came of it.
    """

    def __init__(
        self,
        connect: Callable[[], Runs],
        offers: Callable[[str], tuple[str, ...]],
        clock: Callable[[], float] = time.monotonic,
        keep: Callable[[str, Ran], None] | None = None,
    ) -> None:
        self._keep = keep
        self._connect = connect
        self._offers = offers
        self._clock = clock
        self._remote: Runs | None = None
        self._deadline: float | None = None
        self._cache: dict[str, Ran] = {}
        self.fault: NodeprepError | None = None
        self.limit_s = 0.0  # what the last command was given

    def begin(self, timeout_s: float) -> None:
        """Start the clock of a proof, in seconds."""
        self._deadline = self._clock() + timeout_s

    def run(self, command: str, *, sudo: bool = True, timeout_s: float = 30.0) -> Ran:
        """Unknown when the proof has no time left, or the node cannot be reached."""
        # Connecting has a time limit of its own and does not use up the first proof's.
        remote = self._open()
        self.limit_s = min(timeout_s, self._left())
        if self.limit_s < GRACE_S:
            raise Unknown("out of time before it could run a command")
        try:
            ran = remote.run(command, sudo=sudo, timeout_s=self.limit_s)
        except NodeprepError as fault:
            raise Unknown(f"the node cannot be reached: {fault.message}") from fault
        if self._keep is not None:
            self._keep(command, ran)
        return ran

    def run_once(self, command: str, *, timeout_s: float = 30.0) -> Ran:
        """Like `run`; whatever came of it is kept, for all proofs that read the same output."""
        if command not in self._cache:
            self._cache[command] = self.run(command, timeout_s=timeout_s)
        return self._cache[command]

    def offers(self, user: str) -> tuple[str, ...]:
        """The ways to log in that the node's sshd offers `user`, asked from here."""
        try:
            return self._offers(user)
        except NodeprepError as fault:
            raise Unknown(f"sshd does not say how one may log in: {fault.message}") from fault

    def close(self) -> None:
        if self._remote is not None:
            self._remote.close()
            self._remote = None

    def _left(self) -> float:
        return float("inf") if self._deadline is None else self._deadline - self._clock()

    def _open(self) -> Runs:
        if self.fault is not None:
            raise Unknown(f"the node cannot be reached: {self.fault.message}")
        if self._remote is None:
            before = self._clock()
            try:
                self._remote = self._connect()
            except NodeprepError as fault:
                self.fault = fault
                raise Unknown(f"the node cannot be reached: {fault.message}") from fault
            if self._deadline is not None:
                self._deadline += self._clock() - before
        return self._remote
