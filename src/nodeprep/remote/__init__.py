"""One way to a node: pyinfra's SSH connector, strict about host keys. Used by probe and accept.

Where a run keeps its connections, `kept` goes by those.

pyinfra and paramiko load when a name is first used: the parent process wants `known_hosts` alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodeprep.remote.exchange import MAX_OUTPUT, Result
    from nodeprep.remote.keeper_client import KeptRemote, kept
    from nodeprep.remote.known_hosts import Address, KnownHosts, host_name, where
    from nodeprep.remote.login import Learn
    from nodeprep.remote.node import Remote, connected, open_nodes, private_key, remotes

_HOME = {
    "exchange": ("MAX_OUTPUT", "Result"),
    "keeper_client": ("KeptRemote", "kept"),
    "known_hosts": ("Address", "KnownHosts", "host_name", "where"),
    "login": ("Learn",),
    "node": ("Remote", "connected", "open_nodes", "private_key", "remotes"),
}

__all__ = [
    "MAX_OUTPUT", "Address", "KeptRemote", "KnownHosts", "Learn", "Remote", "Result",
    "connected", "host_name", "kept", "open_nodes", "private_key", "remotes", "where",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
