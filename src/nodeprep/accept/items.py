"""Claims as pytest items: each judged already, each shown as it was judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from nodeprep.model.verdict import Outcome, Verdict


class ClaimFailed(Exception):
    """A claim that does not hold, or is unknown."""


class ProofFailed(Exception):
    """A proof that failed, or is unknown."""


class Claims(pytest.Collector):
    """All claims of the node, as `claims::<id>`."""

    verdicts: Sequence[Verdict]

    @classmethod
    def of(cls, session: pytest.Session, verdicts: Sequence[Verdict]) -> Claims:
        collector: Claims = cls.from_parent(session, name="claims", nodeid="claims")
        collector.verdicts = verdicts
        return collector

    def collect(self) -> Iterator[ClaimItem]:
        for verdict in self.verdicts:
            item: ClaimItem = ClaimItem.from_parent(self, name=verdict.claim)
            item.verdict = verdict
            yield item


class ClaimItem(pytest.Item):
    """One claim's verdict."""

    verdict: Verdict

    def runtest(self) -> None:
        show(self.verdict, ClaimFailed)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> str:
        return str(excinfo.value)

    def reportinfo(self) -> tuple[str, None, str]:
        return "claims", None, self.verdict.claim


def show(verdict: Verdict, failure: type[Exception]) -> None:
    """To pytest: nothing for a pass, a skip for an exception with its reason, else `failure`."""
    if verdict.verdict in (Outcome.NOT_APPLICABLE, Outcome.WAIVED):
        pytest.skip(f"{verdict.verdict}: {verdict.reason}")
    if verdict.verdict is not Outcome.PASS:
        raise failure(in_words(verdict))


def in_words(verdict: Verdict) -> str:
    """A verdict as a technician reads it, a line each."""
    lines = [
        f"{verdict.verdict}: {verdict.reason or 'no reason given'}",
        *(f"{key}: {text}" for key in ("wanted", "read", "source", "action")
          if (text := getattr(verdict, key))),
    ]  # fmt: skip
    return "\n".join(lines)
