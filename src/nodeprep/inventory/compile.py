"""Compiles a host's desired state: every claim of its roles, with every value filled in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from nodeprep.inventory.check import explain
from nodeprep.inventory.roles import Role
from nodeprep.inventory.template import CannotRender, Scope, register
from nodeprep.model.claim import CLAIM, Claim, File
from nodeprep.model.node import Document, Node


@dataclass(frozen=True)
class Context:
    """What claims are rendered with, beside the role's own values."""

    host: str
    variables: Mapping[str, Any]  # the inventory's
    magic: Mapping[str, Any]  # inventory_hostname, groups, group_names, node_profile
    secrets: frozenset[str]

    def scope(self, role: Role) -> Scope:
        return Scope(role.defaults, self.variables, role.variables, self.magic)


def document(
    node: Node, roles: Iterable[Role], context: Context
) -> tuple[Document | None, list[str]]:
    """The node's document, or what is wrong with its claims: `role: claim: problem` lines."""
    roles = tuple(roles)
    claims: list[Claim] = []
    problems: list[str] = []
    for role in roles:
        compiled, wrong = claims_of(role, context)
        claims += compiled
        problems += wrong
    problems += _claimed_twice(claims)
    if problems:
        return None, problems
    order = tuple(role.name for role in roles)
    digest = _digest(node, order, claims)
    return Document(node=node, roles=order, claims=tuple(claims), digest=digest), []


def claims_of(role: Role, context: Context) -> tuple[list[Claim], list[str]]:
    """One role's claims, rendered and validated, and what is wrong with them."""
    register(role.filters)
    scope = context.scope(role)
    claims: list[Claim] = []
    problems: list[str] = []
    try:
        raw = list(scope.render(role.claims) if isinstance(role.claims, str) else role.claims)
    except CannotRender as error:
        return [], [f"role {role.name}: {error}"]
    for number, item in enumerate(raw, start=1):
        try:
            claims += [_claim(role, one, scope, context) for one in _each(item, scope)]
        except CannotRender as error:
            problems.append(f"role {role.name}: claim {_called(item, number)}: {error}")
        except ValidationError as error:
            shown = f"role {role.name}: claim {_called(item, number)}"
            problems += [f"{shown}: {line}" for line in explain(error)]
        except OSError as error:
            problems.append(
                f"role {role.name}: claim {_called(item, number)}: template: {error.strerror}: "
                f"{error.filename}"
            )
    return claims, problems


def _called(item: Any, number: int) -> str:
    if isinstance(item, Mapping):
        return f"{item.get('kind', '?')}:{item.get('name', f'number {number}')}"
    return f"number {number}"


def _each(item: Any, scope: Scope) -> list[dict[str, Any]]:
    """One claim, or one per mapping of `each`, merged over it."""
    if not isinstance(item, Mapping):
        raise CannotRender(f"a claim is a mapping, found {item!r:.60}")
    base = {key: value for key, value in item.items() if key != "each"}
    if "each" not in item:
        return [base]
    mappings = scope.render(item["each"])
    if not isinstance(mappings, list) or not all(isinstance(m, Mapping) for m in mappings):
        raise CannotRender(f"`each` must be a list of mappings, found {mappings!r:.80}")
    return [{**base, **mapping} for mapping in mappings]


def _claim(role: Role, item: dict[str, Any], scope: Scope, context: Context) -> Claim:
    rendered = {key: scope.render(value) for key, value in item.items()}
    claim = CLAIM.validate_python({**rendered, "role": role.name})
    if isinstance(claim, File):
        claim = _with_content(claim, role, scope)
    return _guarded(claim, context.secrets)


def _with_content(claim: File, role: Role, scope: Scope) -> File:
    content = claim.content
    if claim.template is not None and claim.applies:
        content = scope.file(role.template(claim.template))
    if content is None:
        return claim
    digest = hashlib.sha256(content.encode()).hexdigest()
    return claim.model_copy(update={"content": content, "sha256": digest})


def _guarded(claim: Claim, secrets: frozenset[str]) -> Claim:
    """A document is written to disk, sent and shown: a secret stays in it only as a hash."""
    text = claim.model_dump_json()
    holds = any(json.dumps(s)[1:-1] in text for s in secrets if len(s) >= 4)
    if isinstance(claim, File) and (claim.secret or holds):
        return claim.model_copy(update={"content": None, "secret": True})
    if holds:
        raise CannotRender("holds a vaulted value; only the content of a file may")
    return claim


def _claimed_twice(claims: Iterable[Claim]) -> list[str]:
    """Two roles, or one role twice, that claim one thing: they would fight over it."""
    seen: dict[tuple[str, str], str] = {}
    problems = []
    for claim in claims:
        if not claim.applies:
            continue
        thing = (claim.kind, claim.name)
        if thing in seen:
            problems.append(
                f"{claim.kind} {claim.name!r} is claimed twice: {seen[thing]} and {claim.id}"
            )
        seen.setdefault(thing, claim.id)
    return problems


def _digest(node: Node, roles: tuple[str, ...], claims: Iterable[Claim]) -> str:
    parts = [node.profile.model_dump_json(), *roles, *(claim.model_dump_json() for claim in claims)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
