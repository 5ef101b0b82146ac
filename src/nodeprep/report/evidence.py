"""The archive for a provider's ticket: one node, in plain words and with everything behind them."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import tarfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nodeprep.model.hardware import Hardware
from nodeprep.model.run import NodeResult, RunResult
from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report import document, html, junit, words
from nodeprep.report.redact import leaves, redact
from nodeprep.report.safe import clean, encodable

_WIDTH = 100
FILE_LIMIT = 2_000_000  # characters of one file; of a longer one the end is kept


@dataclass(frozen=True)
class Evidence:
    """What is put into the archive.

    result    the run that says what is wrong, of this one node
    hardware  as last read, where the run has none
    history   lines: what happened to the node, oldest first
    files     texts of its runs, and their JSON documents, by their path in the archive
    """

    result: RunResult
    hardware: Hardware | None
    history: tuple[str, ...]
    files: Mapping[str, str | dict[str, Any]]

    @property
    def node(self) -> NodeResult:
        return self.result.nodes[0]


def alone(result: RunResult, name: str) -> RunResult:
    """The run as if it had been of this node only."""
    return result.model_copy(
        update={"nodes": tuple(node for node in result.nodes if node.name == name)}
    )


def pack(evidence: Evidence, scrub: Callable[[str], str] = str) -> bytes:
    """A .tar.gz: the same bytes from the same evidence. `scrub` masks the secrets that are known.

    What only looks like a secret is masked as well; in data each text by itself, so that nothing
    hides behind the escapes of JSON or HTML.
    """
    texts = dict(sorted(_texts(_masked(evidence, lambda text: redact(scrub(text)))).items()))
    folder = f"{evidence.result.site}-{evidence.node.name}-evidence"
    out = io.BytesIO()
    at = int(evidence.result.finished.timestamp())
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=at) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, text in texts.items():
            data = encodable(text).encode()
            member = tarfile.TarInfo(f"{folder}/{path}")
            member.size, member.mtime, member.mode = len(data), at, 0o644
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def _masked(evidence: Evidence, mask: Callable[[str], str]) -> Evidence:
    hardware = evidence.hardware.model_dump() if evidence.hardware else None
    return Evidence(
        result=RunResult.model_validate(leaves(evidence.result.model_dump(), mask)),
        hardware=Hardware.model_validate(leaves(hardware, mask)) if hardware else None,
        history=tuple(map(mask, evidence.history)),
        files={
            path: _cut(mask(each)) if isinstance(each, str) else leaves(each, mask)
            for path, each in evidence.files.items()
        },
    )


def _texts(evidence: Evidence) -> dict[str, str]:
    texts = {
        **{
            f"runs/{path}": each if isinstance(each, str) else json.dumps(each, indent=1) + "\n"
            for path, each in evidence.files.items()
        },
        "report.html": html.render(evidence.result),
        "run.json": document.dumps(evidence.result) + "\n",
        "junit.xml": junit.render(evidence.result),
        "history.txt": "".join(f"{line}\n" for line in evidence.history) or "nothing on record\n",
    }
    hardware = _hardware(evidence)
    if hardware:
        texts["hardware.json"] = hardware.model_dump_json(indent=2) + "\n"
    return {"README.txt": readme(evidence, texts), **texts}


def _hardware(evidence: Evidence) -> Hardware | None:
    return evidence.node.hardware or evidence.hardware


def _cut(text: str) -> str:
    if len(text) <= FILE_LIMIT:
        return text
    return f"[the first {len(text) - FILE_LIMIT} characters are left out]\n{text[-FILE_LIMIT:]}"


def readme(evidence: Evidence, texts: Mapping[str, str]) -> str:
    """What is wrong and with which parts, for somebody who never heard of nodeprep."""
    node, run = evidence.node, evidence.result
    lines = [
        f"Node {node.name}, site {run.site}",
        f"Checked {words.when(run.finished)} by nodeprep {run.version} ({run.verb})",
        *_state(node),
        *(["SIMULATED: figures marked so are of a lab's stand-ins, not of real hardware."]
          if node.simulated else []),
        "",
        *_titled("What is wrong", _wrong(node)),
        *_titled("Serials", _serials(_hardware(evidence))),
        *_titled("Rented, and what stands there", _parts(node, _hardware(evidence))),
        *_titled("Files", _index(texts)),
    ]  # fmt: skip
    return "\n".join(clean(line) for line in lines) + "\n"


def _titled(title: str, lines: Iterator[str]) -> Iterator[str]:
    yield title
    yield "-" * len(title)
    yield from lines
    yield ""


def _state(node: NodeResult) -> Iterator[str]:
    since = f" since {words.when(node.since)}" if node.since else ""
    yield f"State: {node.state}{since}"
    if node.why:
        yield from _wrapped(f"Reason on record: {node.why}")


def _wrong(node: NodeResult) -> Iterator[str]:
    """Hardware first, then what was measured; settings are the tenant's own to mend."""
    if node.fault:
        yield f"* {node.fault.message}"
        if node.fault.hint:
            yield f"    next: {node.fault.hint}"
    theirs = [verdict for verdict in node.blocking if _is_hardware(verdict)]
    for verdict in theirs:
        yield from _finding(verdict)
    for verdict in node.verdicts:
        if words.slow(verdict) and not verdict.verdict.blocks:
            yield f"* {verdict.claim}: {words.slow(verdict)}"
    ours = len(node.blocking) - len(theirs)
    if ours:
        noun = "setting is" if ours == 1 else "settings are"
        yield f"* {ours} {noun} not as we want; those are ours to mend (see report.html)"
    if not node.fault and not node.blocking:
        yield "Nothing, in this run: every check passed."


def _is_hardware(verdict: Verdict) -> bool:
    return verdict.claim.startswith("hardware/") or "/proof:" in verdict.claim


def _finding(verdict: Verdict) -> Iterator[str]:
    said = words.short(verdict)
    if verdict.verdict is Outcome.UNKNOWN:
        said = f"could not be measured: {verdict.reason or 'no answer'}"
    stamp = " [simulated]" if verdict.simulated else ""
    yield from _wrapped(f"* {verdict.claim}: {said}{stamp}")
    named = {
        "wanted": verdict.wanted,
        "read": verdict.read,
        "source": verdict.source,
        "next": verdict.action,
    }
    for name, text in named.items():
        if text and text not in said:
            yield from _wrapped(f"    {name}: {text}")


def _wrapped(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip(" *")) + 2 * line.startswith(" "))
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _serials(hardware: Hardware | None) -> Iterator[str]:
    if hardware is None:
        yield "The hardware was never read."
        return
    board = " ".join(filter(None, (hardware.board_vendor, hardware.board_model)))
    rows = [("board", board, hardware.board_serial or "")]
    rows += [
        (f"GPU {gpu.index if gpu.index is not None else '?'} at {gpu.pci_address}",
         gpu.model or gpu.pci_id or "",
         ", ".join(filter(None, (gpu.serial, gpu.uuid, gpu.vbios and f"VBIOS {gpu.vbios}"))))
        for gpu in hardware.gpus or ()
    ]  # fmt: skip
    rows += [
        (f"disk {d.name}", f"{d.model or ''} {words.size(d.size_bytes)}".strip(), d.serial or "")
        for d in hardware.disks or ()
    ]
    rows += [
        (f"DIMM {dimm.slot}", f"{dimm.size_mib // 1024} GiB", dimm.serial or "")
        for dimm in hardware.dimms or ()
        if dimm.size_mib
    ]
    rows += [(f"NIC {nic.name}", nic.driver or "", nic.mac or "") for nic in hardware.nics or ()]
    yield from _aligned([(part, what or "?", serial or "not told") for part, what, serial in rows])


def _parts(node: NodeResult, hardware: Hardware | None) -> Iterator[str]:
    rented = words.rented(node.profile.parts) if node.profile else {}
    standing = words.standing(hardware) if hardware else {}
    wrong = words.wrong_parts(node)
    rows = [
        (part, rented.get(part, "-"), standing.get(part, "-"), "<- not as rented" * (part in wrong))
        for part in dict.fromkeys((*rented, *standing))
    ]
    yield from _aligned(rows) if rows else ["Neither is known."]


def _index(texts: Mapping[str, str]) -> Iterator[str]:
    known = {
        "report.html": "every check, readable in a browser",
        "run.json": "the same for a machine",
        "junit.xml": "the same for CI",
        "hardware.json": "all that the node told of its parts",
        "history.txt": "what happened to the node, in order",
    }
    rows = [(path, known[path]) for path in sorted(texts) if path in known]
    runs = sorted({path.split("/")[1] for path in texts if path.startswith("runs/")})
    rows += [(f"runs/{run}/", "outputs and logs of that run") for run in runs]
    yield from _aligned(rows)
    yield "Passwords, keys and tokens were masked."


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip()


def history_line(at: dt.datetime, before: str, happened: str, after: str, reason: str) -> str:
    """One move of a node, as `history.txt` has it."""
    moved = f"{before} -> {after}" if before != after else after
    return f"{words.when(at)}  {happened}: {moved}" + (f": {reason}" if reason else "")
