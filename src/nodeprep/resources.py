"""Where things lie: what the project carries (roles, playbooks, profiles), and what a site keeps.

In a checkout the roles stand at the top of the tree; in a wheel they travel inside the package.
"""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent.parent


def data_dir() -> Path:
    """The folder that holds `roles/`, `playbooks/` and `inventory/profiles/`."""
    packaged = _PACKAGE / "data"
    return packaged if packaged.is_dir() else _CHECKOUT


def search_path(inventory: Path, what: str) -> tuple[Path, ...]:
    """Folders named `what` (`roles`, `playbooks`), the site's own before those carried along.

    A site keeps its own beside the folder of its inventory: site/inventory/la.yaml, site/roles/.
    """
    own = inventory.resolve().parent.parent / what
    carried = data_dir() / what
    return tuple(dict.fromkeys(path for path in (own, carried) if path.is_dir()))


def profile_dirs(inventory: Path) -> tuple[Path, ...]:
    """Folders of hardware profiles, the site's own first."""
    own = inventory.resolve().parent / "profiles"
    carried = data_dir() / "inventory" / "profiles"
    return tuple(dict.fromkeys(path for path in (own, carried) if path.is_dir()))


def state_home() -> Path:
    """Where ledgers, host keys, runs and labs are kept: NODEPREP_STATE, or the XDG state folder."""
    override = os.environ.get("NODEPREP_STATE")
    if override:
        return Path(override).expanduser().resolve()
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "nodeprep"


def cache_home() -> Path:
    """Where what can be made again is kept: NODEPREP_CACHE, or the XDG cache folder."""
    override = os.environ.get("NODEPREP_CACHE")
    if override:
        return Path(override).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "nodeprep"


def site_dir(site: str) -> Path:
    """One site's state: ledger.sqlite, known_hosts, id_ed25519, runs/, accepted.json, hostfile."""
    return state_home() / "sites" / site
