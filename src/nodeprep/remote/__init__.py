"""One way to a node: pyinfra's SSH connector, strict about host keys. Used by probe and accept.

pyinfra and paramiko load when a name is first used: the parent process wants `known_hosts` alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodeprep.remote.exchange import MAX_OUTPUT, Result
    from nodeprep.remote.known_hosts import Address, KnownHosts, host_name, where
    from nodeprep.remote.login import Learn
    from nodeprep.remote.node import Remote, open_nodes, private_key, remotes

_HOME = {
    "exchange": ("MAX_OUTPUT", "Result"),
    "known_hosts": ("Address", "KnownHosts", "host_name", "where"),
    "login": ("Learn",),
    "node": ("Remote", "open_nodes", "private_key", "remotes"),
}

__all__ = [
    "MAX_OUTPUT", "Address", "KnownHosts", "Learn", "Remote", "Result",
    "host_name", "open_nodes", "private_key", "remotes", "where",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
