"""Talks to whatever gives nodes their work: who may join (policy), and adapters."""

from nodeprep.join.adapter import Adapter, Member
from nodeprep.join.hostfile import HostfileAdapter
from nodeprep.join.policy import eligible, member

__all__ = ["Adapter", "HostfileAdapter", "Member", "eligible", "member"]
