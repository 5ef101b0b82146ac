"""The gate: whether a node is accepted by its verdicts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from nodeprep.model.profile import Profile
from nodeprep.model.verdict import Outcome, Verdict

_NEEDS_REASON = (Outcome.NOT_APPLICABLE, Outcome.WAIVED)


class Decision(NamedTuple):
    accepted: bool
    reasons: tuple[str, ...]  # why not; empty when accepted


def decide(verdicts: Sequence[Verdict], profile: Profile) -> Decision:
    """Accepted when nothing blocks and enough was shown.

    Enough: at least one claim holds, and a node with GPUs has at least one proof that passed.
    A verdict given twice, or an exception without its reason, decides against the node.
    """
    reasons = [
        *(_blocked(verdict) for verdict in verdicts if verdict.verdict.blocks),
        *_too_little(verdicts, profile),
        *_malformed(verdicts),
    ]
    return Decision(not reasons, tuple(reasons))


def is_proof(verdict: Verdict) -> bool:
    return "/proof:" in verdict.claim


def _is_claim(verdict: Verdict) -> bool:
    return not is_proof(verdict) and not verdict.claim.startswith("hardware/")


def _blocked(verdict: Verdict) -> str:
    return f"{verdict.claim}: {verdict.reason or verdict.verdict}"


def _too_little(verdicts: Sequence[Verdict], profile: Profile) -> list[str]:
    found: list[str] = []
    claims = [verdict for verdict in verdicts if _is_claim(verdict)]
    proofs = [verdict for verdict in verdicts if is_proof(verdict)]
    if not any(verdict.verdict is not Outcome.NOT_APPLICABLE for verdict in claims):
        found.append("no claim was judged")
    if profile.parts.gpus and not any(verdict.verdict is Outcome.PASS for verdict in proofs):
        found.append("the node has GPUs, and no proof of them passed")
    return found


def _malformed(verdicts: Sequence[Verdict]) -> list[str]:
    twice = [claim for claim, times in Counter(v.claim for v in verdicts).items() if times > 1]
    mute = [v for v in verdicts if v.verdict in _NEEDS_REASON and not v.reason.strip()]
    return [
        *(f"{claim}: judged more than once" for claim in twice),
        *(f"{verdict.claim}: {verdict.verdict} without a reason" for verdict in mute),
    ]
