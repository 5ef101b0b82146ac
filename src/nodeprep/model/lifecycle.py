"""The life of a node. This table is the only authority; docs/lifecycle.md is generated from it."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    NEW = "new"
    REACHABLE = "reachable"
    BOOTSTRAPPED = "bootstrapped"
    CONVERGED = "converged"
    ACCEPTED = "accepted"
    JOINED = "joined"
    DRIFTED = "drifted"
    QUARANTINED = "quarantined"
    RETIRED = "retired"


class Event(StrEnum):
    """What happens to a node. The value is the word that the ledger records."""

    ANSWERED = "answered"  # it spoke SSH and its host key is on record
    BOOTSTRAPPED = "bootstrapped"  # key login proven, password login off
    CONVERGED = "converged"  # every claim holds
    ACCEPTED = "accepted"  # every required proof holds too
    JOINED = "joined"
    DRIFTED = "drifted"
    REFUSED = "refused"  # hardware mismatch, failed gate: kept out, with a reason
    RETIRED = "retired"
    RETURNED = "returned"  # rented again, or reinstalled: starts anew


_FORWARD: dict[tuple[State, Event], State] = {
    (State.NEW, Event.ANSWERED): State.REACHABLE,
    (State.REACHABLE, Event.ANSWERED): State.REACHABLE,
    (State.REACHABLE, Event.BOOTSTRAPPED): State.BOOTSTRAPPED,
    (State.BOOTSTRAPPED, Event.CONVERGED): State.CONVERGED,
    (State.CONVERGED, Event.CONVERGED): State.CONVERGED,
    (State.CONVERGED, Event.ACCEPTED): State.ACCEPTED,
    (State.ACCEPTED, Event.ACCEPTED): State.ACCEPTED,
    (State.ACCEPTED, Event.JOINED): State.JOINED,
    (State.JOINED, Event.ACCEPTED): State.JOINED,
    (State.JOINED, Event.JOINED): State.JOINED,
    # A drifted or quarantined node comes back only by the whole way: converge, accept, join.
    (State.DRIFTED, Event.CONVERGED): State.CONVERGED,
    (State.QUARANTINED, Event.ANSWERED): State.QUARANTINED,
    (State.QUARANTINED, Event.BOOTSTRAPPED): State.QUARANTINED,
    (State.QUARANTINED, Event.CONVERGED): State.CONVERGED,
    (State.RETIRED, Event.RETURNED): State.NEW,
}
# An operator may log in to a node at any of these without changing what it is.
_SETTLED = (State.BOOTSTRAPPED, State.CONVERGED, State.ACCEPTED, State.JOINED, State.DRIFTED)

TRANSITIONS: dict[tuple[State, Event], State] = {
    **_FORWARD,
    **{(s, e): s for s in _SETTLED for e in (Event.ANSWERED, Event.BOOTSTRAPPED)},
    **{(s, Event.DRIFTED): State.DRIFTED
       for s in (State.CONVERGED, State.ACCEPTED, State.JOINED, State.DRIFTED)},
    **{(s, Event.REFUSED): State.QUARANTINED for s in State if s is not State.RETIRED},
    **{(s, Event.RETIRED): State.RETIRED for s in State},
    **{(s, Event.RETURNED): State.NEW for s in State if s is not State.NEW},
}  # fmt: skip


def advance(state: State, event: Event) -> State:
    """The state that follows; ValueError for a transition that the table does not hold."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"a node that is {state} cannot be {event}") from None


def allowed(state: State, event: Event) -> bool:
    return (state, event) in TRANSITIONS
