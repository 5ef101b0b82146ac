"""The lifecycle table: what it must never allow, whatever is added to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.model.lifecycle import TRANSITIONS, Event, State, advance, allowed

EVENTS = st.lists(st.sampled_from(list(Event)), max_size=40)


def walk(state: State, events: list[Event]) -> list[tuple[State, Event, State]]:
    """The steps that the table allows, the others left out as the ledger leaves them out."""
    steps = []
    for event in events:
        if allowed(state, event):
            after = advance(state, event)
            steps.append((state, event, after))
            state = after
    return steps


@given(EVENTS)
def test_no_path_to_joined_skips_accepted(events: list[Event]) -> None:
    for before, _, after in walk(State.NEW, events):
        if after is State.JOINED:
            assert before in (State.ACCEPTED, State.JOINED)


@given(EVENTS)
def test_no_path_to_accepted_skips_converged(events: list[Event]) -> None:
    for before, _, after in walk(State.NEW, events):
        if after is State.ACCEPTED:
            assert before in (State.CONVERGED, State.ACCEPTED)


@pytest.mark.parametrize("start", [State.QUARANTINED, State.DRIFTED, State.RETIRED])
@given(events=EVENTS)
def test_who_was_put_out_joins_only_by_converging_and_being_accepted_again(
    start: State, events: list[Event]
) -> None:
    happened: list[Event] = []
    for _, event, after in walk(start, events):
        if event in (Event.DRIFTED, Event.REFUSED, Event.RETIRED, Event.RETURNED):
            happened = []
        happened.append(event)
        if after is State.JOINED:
            assert Event.CONVERGED in happened
            assert Event.ACCEPTED in happened[happened.index(Event.CONVERGED) :]


@pytest.mark.parametrize("state", list(State))
def test_any_node_can_be_retired_and_only_a_retired_one_cannot_be_refused(state: State) -> None:
    assert allowed(state, Event.RETIRED)
    assert allowed(state, Event.REFUSED) == (state is not State.RETIRED)


@pytest.mark.parametrize("state", list(State))
def test_every_state_is_reached_and_is_left_again(state: State) -> None:
    if state is not State.NEW:
        assert any(after is state and b is not state for (b, _), after in TRANSITIONS.items())
    assert any(b is state and after is not state for (b, _), after in TRANSITIONS.items())


@given(st.sampled_from(list(State)), st.sampled_from(list(Event)))
def test_what_the_table_does_not_hold_is_an_error_that_names_both(s: State, e: Event) -> None:
    if allowed(s, e):
        assert advance(s, e) is TRANSITIONS[s, e]
    else:
        with pytest.raises(ValueError, match=f"{s} cannot be {e}"):
            advance(s, e)


@pytest.mark.parametrize(
    "shortcut",
    [(State.CONVERGED, Event.JOINED), (State.QUARANTINED, Event.ACCEPTED),
     (State.DRIFTED, Event.JOINED)],
)  # fmt: skip
def test_a_shortcut_in_the_table_would_be_seen(
    shortcut: tuple[State, Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TRANSITIONS, shortcut, State.JOINED)
    before, _, after = walk(shortcut[0], [shortcut[1]])[0]
    assert after is State.JOINED
    assert before not in (State.ACCEPTED, State.JOINED)
