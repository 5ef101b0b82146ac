"""What the node's own document wants, for proofs: nothing states a desired value twice."""

from __future__ import annotations

import re

from nodeprep.accept.session import Unknown
from nodeprep.model.claim import File, Mount, Package
from nodeprep.model.node import Document


def file_text(document: Document, path: str) -> str:
    """The text that the file at `path` must have. Unknown when nothing claims it."""
    for claim in document.claims:
        if isinstance(claim, File) and claim.name == path and claim.content:
            return claim.content
    raise Unknown(f"no claim says what {path} must hold")


def mounts(document: Document, role: str) -> tuple[Mount, ...]:
    return tuple(claim for claim in document.claims_of(role) if isinstance(claim, Mount))


def package(document: Document, pattern: str) -> re.Match[str]:
    """The match of the one claimed package whose name is `pattern`. Unknown: none, or several."""
    names = {claim.name for claim in document.claims if isinstance(claim, Package)}
    found = [match for name in sorted(names) if (match := re.fullmatch(pattern, name))]
    if len(found) != 1:
        raise Unknown(f"{len(found)} claimed packages are named {pattern}")
    return found[0]
