"""Judges of what lies on a filesystem: files, directories, links."""

from __future__ import annotations

import hashlib

from nodeprep.judge import text
from nodeprep.judge.finding import Finding, unknown
from nodeprep.judge.shapes import FileData
from nodeprep.model.claim import Directory, File, Link

NEW_FILE_LINES = 40  # of a file that is not there, in its diff


def wanted_file(claim: File) -> str:
    if claim.state == "absent":
        return "no such file"
    digest = wanted_sha256(claim)
    content = "" if digest is None else f"content {digest[:12]}, "
    return f"{content}mode {claim.mode}, {claim.owner}:{claim.group}"


def wanted_directory(claim: Directory) -> str:
    return f"a directory, mode {claim.mode}, {claim.owner}:{claim.group}"


def wanted_link(claim: Link) -> str:
    return f"a link to {claim.target}"


def wanted_sha256(claim: File) -> str | None:
    """None: the claim is on mode and owner alone."""
    if claim.sha256:
        return claim.sha256
    if claim.content is not None and not claim.secret:
        return hashlib.sha256(claim.content.encode()).hexdigest()
    return None


def judge_file(claim: File, data: FileData) -> Finding:
    if claim.state == "absent":
        if not data.exists:
            return Finding("no such file")
        return Finding(f"a {data.type or 'file'} is there", (f"{claim.name} must not exist",))
    if not data.exists:
        problem = f"{claim.name} does not exist"
        return Finding("no such file", (problem,), diff=_new_file(claim))
    if data.type not in (None, "file"):
        what = f"a {data.type}"
        return Finding(what, (f"{claim.name} is {what}, not a regular file",))
    digest = wanted_sha256(claim)
    if digest is None and (claim.template is not None or claim.secret):
        return unknown("the compiled document holds no hash for this file", read=_attributes(data))
    if digest is not None and data.sha256 is None:
        return unknown("its content was not read", read=_attributes(data))
    other = digest is not None and data.sha256 != digest
    problems = _attribute_problems(claim, data)
    if None in (data.mode, data.owner, data.group):
        return unknown("its mode or owner was not read", read=_attributes(data))
    if other:
        problems.insert(0, "its content is another")
    return Finding(
        f"content {(data.sha256 or '')[:12]}, {_attributes(data)}"
        if digest is not None
        else _attributes(data),
        tuple(problems),
        diff=_diff(claim, data) if other else "",
    )


def _diff(claim: File, data: FileData) -> str:
    """Only of text that both sides may show."""
    if claim.secret or data.content is None or claim.content is None:
        return ""
    return text.diff(data.content, claim.content, claim.name)


def _new_file(claim: File) -> str:
    """What would be written where nothing is yet, if it may be shown."""
    if claim.secret or claim.content is None:
        return ""
    return text.diff("", claim.content, claim.name, limit=NEW_FILE_LINES)


def judge_directory(claim: Directory, data: FileData) -> Finding:
    if not data.exists:
        return Finding("no such directory", (f"{claim.name} does not exist",))
    if data.type not in (None, "directory"):
        return Finding(f"a {data.type}", (f"{claim.name} is a {data.type}, not a directory",))
    if None in (data.mode, data.owner, data.group):
        return unknown("its mode or owner was not read", read=_attributes(data))
    return Finding(_attributes(data), tuple(_attribute_problems(claim, data)))


def judge_link(claim: Link, data: FileData) -> Finding:
    if not data.exists:
        return Finding("no such link", (f"{claim.name} does not exist",))
    if data.type not in (None, "link"):
        return Finding(f"a {data.type}", (f"{claim.name} is a {data.type}, not a link",))
    if data.target is None:
        return unknown("where it leads was not read")
    if data.target == claim.target:
        return Finding(f"a link to {data.target}")
    return Finding(f"a link to {data.target}", (f"it leads to {data.target}, not {claim.target}",))


def _attributes(data: FileData) -> str:
    return f"mode {data.mode or '?'}, {data.owner or '?'}:{data.group or '?'}"


def _attribute_problems(claim: File | Directory, data: FileData) -> list[str]:
    problems = []
    if _octal(data.mode) != _octal(claim.mode):
        problems.append(f"its mode is {data.mode}, not {claim.mode}")
    if (data.owner, data.group) != (claim.owner, claim.group):
        problems.append(f"it belongs to {data.owner}:{data.group}, not {claim.owner}:{claim.group}")
    return problems


def _octal(mode: str | None) -> int | None:
    try:
        return int(mode or "", 8)
    except ValueError:
        return None
