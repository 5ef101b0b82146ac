#!/usr/bin/env python3
"""Writes the tables of the roles' READMEs from argument specs and claims; `--check` only compares.

The text around the tables is written by hand. A table stands between two comments:
`<!-- variables -->` … `<!-- /variables -->`, and the same with `claims`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROLES = Path(__file__).resolve().parent.parent / "roles"
_MARKUP = re.compile(r"\b[COVE]\(((?:[^()]|\([^()]*\))*)\)")
_ARGUMENTS = ("key_name", "value_name")
_LONG = 90  # characters of a default; more is left to defaults/main.yml


def main(arguments: list[str]) -> int:
    stale = []
    for folder in sorted(path for path in ROLES.iterdir() if (path / "README.md").is_file()):
        readme = folder / "README.md"
        now = readme.read_text(encoding="utf-8")
        wanted = rendered(folder, now)
        if wanted != now:
            stale.append(folder.name)
            if "--check" not in arguments:
                readme.write_text(wanted, encoding="utf-8")
    print(f"{'stale' if '--check' in arguments else 'written'}: {', '.join(stale) or 'none'}")
    return 1 if stale and "--check" in arguments else 0


def rendered(folder: Path, text: str) -> str:
    """The README with both tables as they must be."""
    specs = _load(folder / "meta" / "argument_specs.yml")
    options = specs["argument_specs"]["main"].get("options", {})
    text = _put(text, "variables", _variables(options, _load(folder / "defaults" / "main.yml")))
    claims = _load(folder / "vars" / "main.yml").get(f"{folder.name}_claims")
    return text if claims is None else _put(text, "claims", _claims(claims))


def _load(path: Path) -> Mapping[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def _put(text: str, name: str, table: str) -> str:
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"a README lacks the place for its table of {name}")
    return pattern.sub(lambda found: f"{found[1]}{table}{found[2]}", text)


def _variables(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    rows = ["| variable | default | what, and why |", "|---|---|---|"]
    for name, option in options.items():
        default = _shown(defaults[name]) if name in defaults else "**required**"
        rows.append(f"| `{name}` | {default} | {_text(option['description'])} |")
    return "\n".join(rows) + "\n"


def _claims(claims: list[Mapping[str, Any]]) -> str:
    rows = ["| claim | of | because |", "|---|---|---|"]
    for claim in claims:
        about = _code(claim["name"]) if "name" in claim else _each(claim["each"])
        rows.append(f"| {claim['kind']} | {about} | {_text(claim.get('source', ''))} |")
    return "\n".join(rows) + "\n"


def _each(each: Any) -> str:
    """What a repeated claim is about: the names, or the variables that give them."""
    if isinstance(each, list):
        return ", ".join(_code(str(one["name"])) for one in each)
    names = dict.fromkeys(re.findall(r"\b[a-z]+_[a-z_]+\b", re.sub(r"'[^']*'", "", each)))
    names.pop("node_os", None)
    return "each of " + ", ".join(_code(name) for name in names if name not in _ARGUMENTS)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _code(text or '""') if len(text) <= _LONG else "see `defaults/main.yml`"


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def _text(markup: Any) -> str:
    words = " ".join(markup) if isinstance(markup, list) else str(markup)
    return _MARKUP.sub(r"`\1`", " ".join(words.split())).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
