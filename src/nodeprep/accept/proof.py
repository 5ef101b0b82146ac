"""The `proof` fixture: how a proof runs tools on its node and says what it found."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from nodeprep.accept import causes
from nodeprep.accept.findings import Finding, judge_measured
from nodeprep.accept.parsers.text import excerpt
from nodeprep.accept.session import NodeSession, Ran, Unknown
from nodeprep.model.profile import Profile
from nodeprep.model.verdict import Outcome

# A non-interactive login has a short PATH, and NVIDIA's and Open MPI's tools stand apart from it.
PATH = (
    "/usr/local/cuda/bin:/opt/openmpi/bin:/opt/nccl-tests/build"
    ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)
_TIMED_OUT = 124


class NotApplicable(Exception):
    """The profile says that the node lacks what the proof is about."""


class Proof:
    """Passes only by what is said through it: `measured`, `equals` or `holds`."""

    def __init__(
        self, session: NodeSession, profile: Profile, baseline: Mapping[str, float] | None = None
    ) -> None:
        self._session = session
        self._profile = profile
        self._baseline = baseline or {}
        self.findings: list[Finding] = []

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float = 30.0,
        sudo: bool = True,
        env: Mapping[str, str] | None = None,
        accept: Iterable[int] = (0,),
        once: bool = False,
        or_nothing: bool = False,
    ) -> str:
        """What a tool prints on stdout. A list is an argument vector, a string is for `sh`.

        Unknown when the tool is missing, ends with a code not in `accept`, prints nothing, or runs
        past `timeout_s` or past the time that the proof has left. `once`: proofs that ask the
        same share the answer. `or_nothing`: printing nothing is an answer, which the proof judges.
        """
        tool = _tool(command)
        line = _line(command, env or {})
        if once:
            ran = self._session.run_once(line, timeout_s=timeout_s)
        else:
            ran = self._session.run(line, sudo=sudo, timeout_s=timeout_s)
        _must_have_run(tool, ran, tuple(accept), min(timeout_s, self._session.limit_s))
        if not ran.stdout.strip() and not or_nothing:
            raise Unknown(f"{tool} printed nothing")
        return ran.stdout

    def logins_offered(self, user: str) -> tuple[str, ...]:
        """The ways to log in (publickey, password, …) that sshd offers `user` from here."""
        return self._session.offers(user)

    def measured(
        self,
        name: str,
        value: float | None,
        *,
        read: str = "",
        at: str = "",
        action: str = "",
    ) -> None:
        """A figure, in the unit of the profile's gate `name`. `at`: where the worst one stands."""
        gate = self._profile.gates.get(name)
        self.findings.append(
            judge_measured(
                name, value, gate,
                read=read, at=at, action=action, baseline=self._baseline.get(name),
            )
        )  # fmt: skip

    def equals(
        self, what: str, read: Any, wanted: Any, *, action: str = "", source: str = ""
    ) -> None:
        """`read` None is unknown: nothing equals what was not read."""
        if read is None:
            reason = f"{what} was not told"
            self._add(Outcome.UNKNOWN, wanted=f"{what} {wanted}", reason=reason, action=action)
            return
        good = read == wanted
        self._add(
            Outcome.PASS if good else Outcome.FAIL,
            wanted=f"{what} {wanted}",
            read=f"{what} {read}",
            source=source,
            reason="" if good else f"{what} is {read}, wanted {wanted}",
            action="" if good else action,
        )

    def holds(
        self,
        condition: bool | None,
        *,
        wanted: str,
        read: str,
        reason: str = "",
        action: str = "",
        source: str = "",
    ) -> None:
        """A condition on what was read. None, or nothing read, is unknown."""
        if condition is None or not read.strip():
            why = reason or f"could not tell whether {wanted}"
            self._add(Outcome.UNKNOWN, wanted=wanted, read=read, reason=why, action=action)
            return
        self._add(
            Outcome.PASS if condition else Outcome.FAIL,
            wanted=wanted,
            read=read,
            source=source,
            reason="" if condition else reason or f"wanted {wanted}, read {read}",
            action="" if condition else action,
        )

    def note(self, text: str) -> None:
        """A word beside the verdict. It decides nothing."""
        if self.findings:
            last = self.findings[-1]
            notes = [*last.detail.get("notes", []), text]
            self.findings[-1] = last.model_copy(update={"detail": {**last.detail, "notes": notes}})

    def attach(self, **detail: Any) -> None:
        """Figures beside the verdict, to be drawn: `curve=`, `matrix=`. They decide nothing."""
        if self.findings:
            last = self.findings[-1]
            self.findings[-1] = last.model_copy(update={"detail": {**last.detail, **detail}})

    def unknown(self, reason: str, *, action: str = "") -> NoReturn:
        raise Unknown(reason, action=action)

    def not_applicable(self, reason: str, *, profile: str, values: Iterable[Any] = ()) -> NoReturn:
        """Only because of the profile: its key `profile` (dotted) is empty, or one of `values`.

        Anything else is unknown: that a tool is missing makes nothing inapplicable.
        """
        found = _look_up(self._profile, profile)
        allowed = tuple(values)
        if (found in allowed) if allowed else not found:
            raise NotApplicable(f"{reason} (profile {self._profile.name}: {profile} is {found!r})")
        raise Unknown(f"{reason}: but the profile's {profile} is {found!r}")

    def _add(self, outcome: Outcome, **said: str) -> None:
        self.findings.append(Finding(outcome=outcome, **said))  # type: ignore[arg-type]


def _must_have_run(tool: str, ran: Ran, accept: tuple[int, ...], limit_s: float) -> None:
    if ran.timed_out or (ran.rc == _TIMED_OUT and _TIMED_OUT not in accept):
        raise Unknown(f"{tool} did not end within {limit_s:.3g} s", action="look for a hang")
    if ran.rc not in accept:
        whole = f"{ran.stderr}\n{ran.stdout}"
        raise Unknown(
            causes.why_not(tool, ran.rc, excerpt(whole)),
            action=causes.what_now(tool, ran.rc, whole),
        )


def _tool(command: str | Sequence[str]) -> str:
    words = command.split() if isinstance(command, str) else list(command)
    return words[0].rsplit("/", 1)[-1] if words else "nothing"


def _line(command: str | Sequence[str], env: Mapping[str, str]) -> str:
    """For any shell: tools speak English, and are found where they stand."""
    argv = ["sh", "-c", command] if isinstance(command, str) else list(command)
    settings = {"LC_ALL": "C", "PATH": PATH, **env}
    return shlex.join(["env", *(f"{key}={value}" for key, value in settings.items()), *argv])


def _look_up(profile: Profile, key: str) -> Any:
    value: Any = profile.model_dump()
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
