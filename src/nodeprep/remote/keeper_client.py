"""Nodes by the connections that a run's keeper holds: the client of `remote/keeper.py`.

Needs neither pyinfra nor paramiko, which take longer to load than most proofs to run.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from nodeprep import errors
from nodeprep.errors import NodeprepError, ToolFailure
from nodeprep.remote.exchange import Result

_CONNECT_S = 120.0  # the keeper has limits of its own, and says which one it was
_MORE_S = 60.0  # beyond a command's own limit, for ending it and for a connection made anew


def kept(users: Mapping[str, str], keeper: str) -> dict[str, KeptRemote]:
    """The nodes by name, not yet connected. `users`: who logs in, by name."""
    return {name: KeptRemote(name, user, keeper) for name, user in users.items()}


class KeptRemote:
    """Like `Remote`; closing it leaves the connection to those who come after."""

    def __init__(self, name: str, user: str, keeper: str) -> None:
        self.name = name
        self.user = user
        self._keeper = keeper

    def connect(self) -> KeptRemote:
        """Raises what `Remote.connect` does."""
        self._ask({"node": self.name}, _CONNECT_S)
        return self

    def run(
        self,
        command: str | Sequence[str],
        *,
        sudo: bool = True,
        stdin: bytes | str | None = None,
        timeout_s: float,
    ) -> Result:
        """As `Remote.run`. `stdin`: text; bytes must be UTF-8."""
        asked = {
            "node": self.name,
            "command": command if isinstance(command, str) else list(command),
            "sudo": sudo,
            "stdin": stdin.decode() if isinstance(stdin, bytes) else stdin,
            "timeout_s": timeout_s,
        }
        return Result(**self._ask(asked, timeout_s + _MORE_S))

    def close(self) -> None:
        """Nothing: the keeper closes."""

    def __enter__(self) -> KeptRemote:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _ask(self, request: Mapping[str, Any], patience_s: float) -> Any:
        try:
            line = self._exchange(json.dumps(request).encode() + b"\n", patience_s)
        except OSError as problem:
            what = f"{type(problem).__name__}: {problem}"
            raise ToolFailure(f"{self.name}: the run's connections are not kept: {what}") from None
        if not line:
            raise ToolFailure(f"{self.name}: the keeper of the run's connections went away")
        answer = json.loads(line)
        if "error" in answer:
            raise _error(answer["error"])
        return answer["result"]

    def _exchange(self, request: bytes, patience_s: float) -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(patience_s)
            client.connect(self._keeper)
            client.sendall(request)
            with client.makefile("rb") as stream:
                return stream.readline()


def _error(told: Mapping[str, str]) -> NodeprepError:
    kind: type[NodeprepError] = getattr(errors, told["type"], ToolFailure)
    return kind(told["message"], hint=told["hint"])
