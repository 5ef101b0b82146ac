"""testinfra's way to the node: `nodeprep://<name>`, over the session that proofs share."""

from __future__ import annotations

from typing import Any

import testinfra.backend
import testinfra.host
from testinfra.backend.base import BaseBackend, CommandResult

from nodeprep.accept.session import NodeSession, Unknown

NAME = "nodeprep"
_COMMAND_TIMEOUT_S = 60.0


class NodeprepBackend(BaseBackend):  # type: ignore[misc]
    """Runs testinfra's commands through a NodeSession, as root unless told otherwise.

    A command that ran out of time raises Unknown: no module of testinfra may take it for an answer.
    """

    NAME = NAME

    def __init__(
        self, hostname: str, *args: Any, session: NodeSession, sudo: bool = True, **kwargs: Any
    ) -> None:
        self._session = session
        super().__init__(hostname, sudo, kwargs.pop("sudo_user", None))

    def run(self, command: str, *args: str, **kwargs: Any) -> CommandResult:
        line = self.quote(command, *args)
        as_user = self.get_sudo_command(line, self.sudo_user) if self.sudo_user else line
        ran = self._session.run(as_user, sudo=self.sudo, timeout_s=_COMMAND_TIMEOUT_S)
        if ran.timed_out:
            raise Unknown(f"{line.split()[0]} did not end within {_COMMAND_TIMEOUT_S:g} s")
        return self.result(ran.rc, line.encode(), ran.stdout, ran.stderr)


def register() -> None:
    """Make `nodeprep://` known to testinfra."""
    testinfra.backend.BACKENDS[NAME] = f"{__name__}.{NodeprepBackend.__name__}"


def testinfra_host(name: str, session: NodeSession) -> testinfra.host.Host:
    """A testinfra Host that speaks through the session; not kept in testinfra's global cache."""
    register()
    backend = testinfra.backend.get_backend(f"{NAME}://{name}", session=session)
    host = testinfra.host.Host(backend)
    backend.set_host(host)
    return host
