"""Inventory in, documents out: loads an Ansible inventory, compiles each node's desired state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nodeprep.errors import BadInput
from nodeprep.inventory import cache, check
from nodeprep.inventory import compile as compiler
from nodeprep.inventory.check import Problem
from nodeprep.inventory.profiles import profile as find_profile
from nodeprep.inventory.roles import Playbook, Role, playbook, role
from nodeprep.inventory.source import Host, Source, vault_secret
from nodeprep.inventory.source import load as load_source
from nodeprep.inventory.template import CannotRender, Locked, Scope
from nodeprep.model.node import Connection, Document, Node
from nodeprep.resources import profile_dirs, search_path, site_dir

__all__ = ["Site", "load", "vault_secret"]


@dataclass(frozen=True)
class Site:
    """An inventory, compiled. `documents` in the inventory's order.

    passwords   of first contact, by node, where vault or a lookup gives one
    """

    name: str
    inventory: Path
    playbook: Path
    roles_path: tuple[Path, ...]
    documents: tuple[Document, ...]
    passwords: Mapping[str, str]
    variables: Mapping[str, Mapping[str, Any]]

    @property
    def folder(self) -> Path:
        return site_dir(self.name)


def load(
    inventory: Path,
    *,
    limit: str | None = None,
    vault_password_file: Path | None = None,
    secrets: bool = False,
) -> Site:
    """Load and compile. Raises BadInput that holds every problem at once.

    With `secrets` the first-contact passwords are resolved; without, an unchanged site is read
    from the cache, Ansible's loader is not imported and no vault password is needed.
    """
    roles_path = search_path(inventory, "roles")
    book = playbook(search_path(inventory, "playbooks"))
    profiles = profile_dirs(inventory)
    if not inventory.exists():
        raise BadInput(f"inventory {inventory} does not exist", hint="nodeprep init writes one")
    name = cache.key(inventory, limit, roles_path, [book.path, *profiles])
    kept = None if secrets else cache.get(name)
    if kept is not None:
        return _site(inventory, book, roles_path, kept, {}, {})
    source = load_source(
        inventory, limit=limit, patterns=book.patterns, vault_password_file=vault_password_file
    )
    builder = _Builder(inventory, source, book, roles_path, profiles)
    documents = builder.documents()
    if not source.volatile:
        cache.put(name, documents)
    variables = {host.name: host.variables for host in source.hosts}
    return _site(inventory, book, roles_path, documents, builder.passwords, variables)


def _site(
    inventory: Path,
    book: Playbook,
    roles_path: tuple[Path, ...],
    documents: tuple[Document, ...],
    passwords: Mapping[str, str],
    variables: Mapping[str, Mapping[str, Any]],
) -> Site:
    return Site(
        name=documents[0].node.site,
        inventory=inventory,
        playbook=book.path,
        roles_path=roles_path,
        documents=documents,
        passwords=passwords,
        variables=variables,
    )


class _Builder:
    """Turns hosts into documents and gathers problems as it goes."""

    def __init__(
        self,
        inventory: Path,
        source: Source,
        book: Playbook,
        roles_path: tuple[Path, ...],
        profiles: tuple[Path, ...],
    ) -> None:
        self._inventory = str(inventory)
        self._source = source
        self._book = book
        self._roles = {name: role(name, roles_path) for name in book.roles}
        self._profiles = profiles
        self._problems: list[Problem] = []
        self.passwords: dict[str, str] = {}

    def documents(self) -> tuple[Document, ...]:
        found = check.duplicate_addresses(self._source.everyone, self._inventory)
        self._problems += found
        built = [self._document(host) for host in self._source.hosts]
        documents = tuple(document for document in built if document is not None)
        self._problems += self._one_site(documents)
        if self._problems:
            problems = check.told(self._problems)
            raise BadInput(
                f"inventory {self._inventory} has {len(problems)} problem(s); nothing was touched",
                problems=problems,
            )
        return documents

    def _one_site(self, documents: tuple[Document, ...]) -> list[Problem]:
        sites = sorted({document.node.site for document in documents})
        if len(sites) > 1:
            text = f"key `nodeprep_site`: one site an inventory, found {', '.join(sites)}"
            return [Problem(self._inventory, "", text)]
        return []

    def _add(self, host: Host, *texts: str) -> None:
        self._problems += [Problem(self._inventory, host.name, text) for text in texts]

    def _document(self, host: Host) -> Document | None:
        before = len(self._problems)
        mine = self._book.roles_of(host.name, self._source.members)
        self._problems += check.unknown_keys(host, self._roles, self._inventory)
        if not mine:
            groups = ", ".join(self._book.patterns)
            self._add(host, f"no play of the playbook is for it; put it into one of: {groups}")
        node = self._node(host)
        if node is None:
            return None
        roles = [self._roles[name] for name in mine]
        context = self._context(host, node)
        for one in roles:
            self._problems += self._types(host, one, context.scope(one))
        if len(self._problems) > before:
            return None
        document, problems = compiler.document(node, roles, context)
        self._add(host, *problems)
        return document

    def _types(self, host: Host, one: Role, scope: Scope) -> list[Problem]:
        try:
            return check.wrong_types(host, one, scope.get, self._inventory)
        except CannotRender as error:
            return [Problem(self._inventory, host.name, f"role {one.name}: {error}")]

    def _context(self, host: Host, node: Node) -> compiler.Context:
        magic = {
            "inventory_hostname": host.name,
            "groups": self._source.groups,
            "group_names": list(host.groups),
            "node_profile": node.profile.model_dump(mode="json"),
        }
        return compiler.Context(host.name, host.variables, magic, self._source.secrets)

    def _node(self, host: Host) -> Node | None:
        before = len(self._problems)
        scope = Scope(host.variables, {"inventory_hostname": host.name})

        def value(key: str, default: Any = None) -> Any:
            return self._value(host, scope, key, default)

        site = str(value("nodeprep_site", "default"))
        profile_name = value("nodeprep_profile")
        if profile_name is None:
            text = "key `nodeprep_profile` is missing; it names the hardware class, such as"
            self._add(host, f"{text} a100-sxm4-40g-x4")
        if value("node_os") not in check.PLATFORMS:
            text = f": found {value('node_os')!r}, allowed: {', '.join(check.PLATFORMS)}"
            self._problems.append(check.at(host, "node_os", self._inventory, text))
        waivers, wrong = check.waivers(host, value("nodeprep_waivers"), self._inventory)
        self._problems += wrong
        connection = self._connection(host, value, site)
        if profile_name is None or len(self._problems) > before or connection is None:
            return None
        try:
            profile = find_profile(str(profile_name), self._profiles)
        except BadInput as error:
            text = f": {'; '.join([error.message, *error.problems])}"
            self._problems.append(check.at(host, "nodeprep_profile", self._inventory, text))
            return None
        self._password(host, value)
        return Node(
            name=host.name,
            site=site,
            groups=host.groups,
            address=str(value("node_address") or connection.host),
            connection=connection,
            profile=profile,
            waivers=waivers,
        )

    def _value(self, host: Host, scope: Scope, key: str, default: Any) -> Any:
        if key not in scope:
            return default
        try:
            return scope.get(key)
        except CannotRender as error:
            self._problems.append(check.at(host, key, self._inventory, f": {error}"))
            return default

    def _connection(self, host: Host, value: Any, site: str) -> Connection | None:
        folder = site_dir(site)
        key_file = value("ansible_ssh_private_key_file") or folder / "id_ed25519"
        try:
            return Connection(
                host=str(value("ansible_host", host.name)),
                port=value("ansible_port", 22),
                user=str(value("nodeprep_admin_user", "nodeprep")),
                bootstrap_user=str(value("nodeprep_bootstrap_user", "root")),
                key_file=str(Path(str(key_file)).expanduser()),
                known_hosts=str(folder / "known_hosts"),
                connect_timeout_s=value("nodeprep_connect_timeout", 10),
            )
        except ValidationError as error:
            self._add(host, *(f"connection: {line}" for line in check.explain(error)))
            return None

    def _password(self, host: Host, value: Any) -> None:
        if isinstance(host.variables.get("nodeprep_bootstrap_password"), Locked):
            return
        password = value("nodeprep_bootstrap_password")
        if password is None:
            return
        if str(password) not in self._source.secrets:
            text = (
                ": stands in plain text; put it into a vault (ansible-vault encrypt_string), or "
                "leave it out and set NODEPREP_BOOTSTRAP_PASSWORD"
            )
            key = "nodeprep_bootstrap_password"
            self._problems.append(check.at(host, key, self._inventory, text))
            return
        self.passwords[host.name] = str(password)
