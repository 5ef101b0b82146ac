"""`dcgmi diag -j`: what each test said of each GPU, in the shapes of DCGM 2, 3 and 4."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number

TOOL = "dcgmi diag"
_STATUS = {
    "pass": "pass", "passed": "pass", "ok": "pass",
    "fail": "fail", "failed": "fail", "error": "fail",
    "warn": "warn", "warning": "warn",
    "skip": "skip", "skipped": "skip", "not run": "skip", "notrun": "skip", "not_run": "skip",
}  # fmt: skip
_NO_MEMORY = re.compile(
    r"(?:could ?n[o']t|cannot|unable to|failed to) allocate|allocat\w* .*\bfailed", re.IGNORECASE
)
_FIGURE = re.compile(r"^GPU\s+(\d+):?\s+(.*?):?\s+([0-9][0-9.,]*)\s*([A-Za-z/%]*)\s*$")


@dataclass(frozen=True)
class DiagResult:
    """One status, of the GPUs that it is about (none: of the node, or of something else).

    test    as DCGM's plugins are called: memory, pcie, diagnostic, targeted_stress, …
    status  pass, fail, warn, skip, or unknown for a word that is none of DCGM's
    shrunk  it got less memory than it must test, which DCGM 4 tells of a pass too
    """

    category: str
    test: str
    gpus: tuple[int, ...]
    status: str
    warnings: tuple[str, ...]
    info: tuple[str, ...]

    @property
    def shrunk(self) -> bool:
        return any(_NO_MEMORY.search(warning) for warning in self.warnings)


@dataclass(frozen=True)
class Figure:
    """What a test measured on one GPU, in its own words: `relative stress level`, no unit."""

    test: str
    name: str
    gpu: int
    value: float
    unit: str


@dataclass(frozen=True)
class Diagnosis:
    version: str
    results: tuple[DiagResult, ...]

    def with_status(self, status: str) -> tuple[DiagResult, ...]:
        return tuple(result for result in self.results if result.status == status)

    def passed_on(self, test: str) -> set[int]:
        """GPUs on which every result of the test is a pass."""
        of_test = [result for result in self.results if result.test == test]
        good = {
            gpu for result in of_test if result.status in ("pass", "warn") for gpu in result.gpus
        }
        return good - {gpu for r in of_test if r.status not in ("pass", "warn") for gpu in r.gpus}

    def figures(self) -> tuple[Figure, ...]:
        return tuple(_figures(self.results))


def parse_dcgm(text: str) -> Diagnosis:
    """ParseError without a whole document, for DCGM's own runtime error, and without results."""
    top = _document(text)
    # DCGM 4 says `DCGM Diagnostic`, and tells its version beside it.
    root = next((top[key] for key in ("DCGM GPU Diagnostic", "DCGM Diagnostic") if key in top), top)
    if not isinstance(root, dict):
        raise ParseError(TOOL, "a diagnostic that is not an object")
    for key in ("runtime_error", "Runtime Error", "Error"):
        if root.get(key):
            raise ParseError(TOOL, excerpt(str(root[key])))
    results = tuple(
        _result(str(category.get("category", "")), str(test.get("name", "")), result)
        for category in _objects(root.get("test_categories"))
        for test in _objects(category.get("tests"))
        for result in _results_of(test)
    )
    if not results:
        raise ParseError(TOOL, f"no results in: {excerpt(text)}")
    metadata = top.get("metadata")
    beside = metadata.get("version") if isinstance(metadata, dict) else None
    return Diagnosis(str(root.get("version") or beside or ""), results)


def plugin(name: str) -> str:
    """`Targeted Stress` and `targeted_stress` are one; so are `GPU Memory` and `memory`."""
    return re.sub(r"[\s_-]+", "_", name.strip().lower()).removeprefix("gpu_")


def _document(text: str) -> dict[str, Any]:
    """The one JSON object in the output; warnings may stand before and after it."""
    body = clean(text)
    start = body.find("{")
    try:
        found, _ = json.JSONDecoder().raw_decode(body[start:] if start >= 0 else "")
    except (ValueError, RecursionError):
        raise ParseError(TOOL, f"no whole document in: {excerpt(text) or 'nothing'}") from None
    if not isinstance(found, dict):
        raise ParseError(TOOL, "not an object")
    return found


def _objects(value: Any) -> list[dict[str, Any]]:
    """DCGM leaves nulls between the entries of its lists."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _results_of(test: dict[str, Any]) -> list[dict[str, Any]]:
    """DCGM 4 sums a test up: what is wrong with no GPU of its own is said there alone."""
    results, summary = _objects(test.get("results")), test.get("test_summary")
    if not isinstance(summary, dict) or "status" not in summary:
        return results
    told = {_word(result) for result in results}
    return results if _word(summary) in told else [*results, summary]


def _word(result: dict[str, Any]) -> str:
    return _STATUS.get(" ".join(str(result.get("status", "")).lower().split()), "unknown")


def _result(category: str, test: str, result: dict[str, Any]) -> DiagResult:
    return DiagResult(
        category=category,
        test=plugin(test),
        gpus=_gpus(result),
        status=_word(result),
        warnings=_texts(result.get("warnings")),
        info=_texts(result.get("info")),
    )


def _gpus(result: dict[str, Any]) -> tuple[int, ...]:
    """DCGM 4 names one entity a result; before it, `gpu_ids` holds one number or several."""
    group, entity = result.get("entity_group"), result.get("entity_id")
    if group is not None or entity is not None:
        is_gpu = str(group).upper() == "GPU" and isinstance(entity, int)
        return (entity,) if is_gpu and isinstance(entity, int) else ()
    ids = result.get("gpu_ids", result.get("gpu_id", ""))
    words = re.split(r"[,\s]+", str(ids).strip(" []"))
    return tuple(int(word) for word in words if word.isdecimal() and len(word) < 5)


def _texts(value: Any) -> tuple[str, ...]:
    """A text, a list of texts, or a list of objects that hold one."""
    if isinstance(value, str):
        return (value,) if value.strip() else ()
    if not isinstance(value, list):
        return ()
    texts = (item.get("warning") if isinstance(item, dict) else item for item in value)
    return tuple(str(text) for text in texts if text)


def _figures(results: tuple[DiagResult, ...]) -> Iterator[Figure]:
    for result in results:
        for line in (part for text in result.info for part in text.splitlines()):
            match = _FIGURE.match(line.strip())
            value = number(match.group(3)) if match else None
            if match and value is not None and len(match.group(1)) < 5:
                name = " ".join(match.group(2).split())
                yield Figure(result.test, name, int(match.group(1)), value, match.group(4))
