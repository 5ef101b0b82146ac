"""What the roles and the playbook say: values, claims, argument specs, and the order."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from nodeprep.errors import BadInput

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Role:
    """One folder under roles/.

    options   the argument spec of its main entry point
    filters   its own and those of roles that it depends on, which Ansible finds in the same places:
              pure functions
    """

    name: str
    folder: Path
    defaults: Mapping[str, Any]
    variables: Mapping[str, Any]
    options: Mapping[str, Any]
    filters: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def claims(self) -> Any:
        """The list `<role>_claims`, unrendered."""
        return self.variables.get(f"{self.name}_claims", [])

    def template(self, name: str) -> str:
        return (self.folder / "templates" / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Play:
    """A play of the playbook: a host pattern and its roles in order."""

    pattern: str
    roles: tuple[str, ...]


@dataclass(frozen=True)
class Playbook:
    path: Path
    plays: tuple[Play, ...] = field(default=())

    @property
    def patterns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(play.pattern for play in self.plays))

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(role for play in self.plays for role in play.roles))

    def roles_of(self, host: str, members: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
        """The roles that the playbook gives to a host, in its order, each once."""
        mine = [play for play in self.plays if host in members[play.pattern]]
        return tuple(dict.fromkeys(role for play in mine for role in play.roles))


def read_yaml(path: Path) -> Any:
    """Parse one YAML file; BadInput names the file and the line."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506  # safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise BadInput(f"{where}: malformed YAML: {getattr(error, 'problem', error)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


def playbook(folders: Sequence[Path]) -> Playbook:
    """`provision.yml` of the first folder that has one."""
    for folder in folders:
        path = folder / "provision.yml"
        if path.is_file():
            return Playbook(path, tuple(_plays(path)))
    raise BadInput("no playbooks/provision.yml was found", hint="a site may bring its own")


def _plays(path: Path) -> list[Play]:
    plays = []
    for play in read_yaml(path) or []:
        roles = tuple(r if isinstance(r, str) else r["role"] for r in play.get("roles", []))
        if roles:
            plays.append(Play(str(play["hosts"]), roles))
    return plays


@cache
def role(name: str, folders: tuple[Path, ...]) -> Role:
    """The role `name` from the first of `folders` that has it."""
    for folder in folders:
        if (folder / name).is_dir():
            return _role(name, folder / name, folders)
    searched = ", ".join(map(str, folders))
    raise BadInput(f"the playbook names the role {name!r}, which is in none of: {searched}")


def _role(name: str, folder: Path, folders: tuple[Path, ...]) -> Role:
    specs = _mapping(folder / "meta" / "argument_specs.yml").get("argument_specs", {})
    needed = _mapping(folder / "meta" / "main.yml").get("dependencies") or []
    return Role(
        name=name,
        folder=folder,
        defaults=_mapping(folder / "defaults" / "main.yml"),
        variables=_mapping(folder / "vars" / "main.yml"),
        options=specs.get("main", {}).get("options", {}),
        filters=_merged(
            *(role(str(one["role"]), folders).filters for one in needed),
            _filters(folder / "filter_plugins"),
        ),
    )


def _merged(*mappings: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    return {name: function for mapping in mappings for name, function in mapping.items()}


def _filters(folder: Path) -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for path in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"nodeprep_filters_{path.stem}", path)
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            found.update(module.FilterModule().filters())
    return found


def _mapping(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    data = read_yaml(path)
    return data if isinstance(data, dict) else {}
