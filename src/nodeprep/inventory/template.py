"""Renders claims and templates: plain Jinja over lazily resolved variables, as Ansible would.

Held together with Ansible's templating by tests/unit/inventory/test_two_engines.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from jinja2 import Environment, StrictUndefined, TemplateError
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import missing

_SCOPE = "__nodeprep_scope"


class CannotRender(Exception):
    """A template that does not render: an undefined variable, a syntax error, a loop."""


class Locked:
    """A vaulted value that was not decrypted: no vault password was given."""

    def __repr__(self) -> str:
        return "<vaulted, locked>"


class Scope:
    """Variables by name, each rendered when it is first asked for.

    Later layers win, as in Ansible: defaults, inventory, the role's own variables.
    """

    def __init__(self, *layers: Mapping[str, Any]) -> None:
        self._raw: dict[str, Any] = {}
        for layer in layers:
            self._raw.update(layer)
        self._rendered: dict[str, Any] = {}
        self._open: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._raw

    def get(self, name: str) -> Any:
        if name in self._rendered:
            return self._rendered[name]
        if name in self._open:
            raise CannotRender(f"variables refer to each other: {' -> '.join([*self._open, name])}")
        self._open.append(name)
        try:
            value = self.render(self._raw[name])
        finally:
            self._open.pop()
        self._rendered[name] = value
        return value

    def render(self, value: Any) -> Any:
        """`value` with every template in it rendered. Raises CannotRender."""
        if isinstance(value, str):
            return self._text(value) if "{" in value else value
        if isinstance(value, Mapping):
            return {key: self.render(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.render(item) for item in value]
        if isinstance(value, Locked):
            raise CannotRender("needs a vaulted value: give --vault-password-file")
        return value

    def _text(self, text: str) -> Any:
        if not any(mark in text for mark in ("{{", "{%", "{#")):
            return text
        return self._evaluate(text, _compiled(text))

    def file(self, text: str) -> str:
        """A template file's text, rendered: what Ansible's template module would write."""
        return str(self._evaluate(text, _compiled_file(text)))

    def _evaluate(self, text: str, compiled: Callable[..., Any]) -> Any:
        try:
            value = compiled({_SCOPE: self})
            if isinstance(value, Undefined):
                value._fail_with_undefined_error()
        except CannotRender:
            raise
        except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError,
                ValueError) as error:  # fmt: skip
            shown = " ".join(text.split())
            raise CannotRender(f"{error} in {shown[:120]!r}") from None
        return value


class _LazyContext(Context):
    """Asks the scope for what the template itself did not set."""

    def resolve_or_missing(self, key: str) -> Any:
        found = super().resolve_or_missing(key)
        if found is not missing:
            return found
        scope = self.parent.get(_SCOPE)
        return scope.get(key) if scope is not None and key in scope else missing


def _environment(*, trim_blocks: bool) -> Environment:
    environment = SandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=trim_blocks, keep_trailing_newline=True
    )
    environment.context_class = _LazyContext
    environment.filters.update(_FILTERS)
    return environment


def _bool(value: Any) -> bool:
    return value if isinstance(value, bool) else str(value).lower() in ("yes", "on", "1", "true")


def _dict2items(value: Mapping[str, Any], key_name: str = "key", value_name: str = "value") -> Any:
    return [{key_name: key, value_name: item} for key, item in value.items()]


def _items2dict(value: Any, key_name: str = "key", value_name: str = "value") -> Any:
    return {item[key_name]: item[value_name] for item in value}


def _combine(*values: Mapping[str, Any], recursive: bool = False) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for value in values:
        for key, item in value.items():
            both = isinstance(item, Mapping) and isinstance(merged.get(key), Mapping)
            merged[key] = (
                _combine(merged[key], item, recursive=True) if recursive and both else item
            )
    return merged


def _ternary(value: Any, true: Any, false: Any) -> Any:
    return true if _bool(value) else false


_FILTERS: dict[str, Callable[..., Any]] = {
    "bool": _bool,
    "dict2items": _dict2items,
    "items2dict": _items2dict,
    "combine": _combine,
    "regex_replace": lambda value, pattern, new: re.sub(pattern, new, str(value)),
    "to_json": lambda value: json.dumps(value, sort_keys=False),
    "ternary": _ternary,
}


def register(filters: Mapping[str, Callable[..., Any]]) -> None:
    """Make a role's own filters known to both environments. Names start with the role's."""
    for environment in (_inline(), _files()):
        environment.filters.update(filters)


@lru_cache(maxsize=1)
def _inline() -> Environment:
    return _environment(trim_blocks=False)


@lru_cache(maxsize=1)
def _files() -> Environment:
    return _environment(trim_blocks=True)


@cache
def _compiled(text: str) -> Callable[..., Any]:
    """One `{{ expression }}` keeps its type; anything around it makes text."""
    inner = text.strip()
    single = inner.startswith("{{") and inner.endswith("}}") and inner == text
    try:
        if single and inner.count("{{") == 1 and "{%" not in inner:
            return _inline().compile_expression(inner[2:-2].strip("-"), undefined_to_none=False)
        return _inline().from_string(text).render
    except TemplateError as error:
        raise CannotRender(f"{error} in {inner[:120]!r}") from None


@cache
def _compiled_file(text: str) -> Callable[..., Any]:
    try:
        return _files().from_string(text).render
    except TemplateError as error:
        raise CannotRender(str(error)) from None
