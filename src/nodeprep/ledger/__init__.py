"""Remembers: runs, node states, hardware identities, acceptances. The public surface only."""

from nodeprep.ledger.records import Accepted, IdentityChange, Move, NodeState, RunRecord
from nodeprep.ledger.store import Ledger

__all__ = ["Accepted", "IdentityChange", "Ledger", "Move", "NodeState", "RunRecord"]
