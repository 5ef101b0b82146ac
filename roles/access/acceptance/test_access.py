"""Proofs of access: the key works, and no password does."""

from __future__ import annotations

import pytest

from nodeprep.accept.proof import Proof
from nodeprep.model.node import Node

# With PAM behind it, keyboard-interactive asks for the password too.
BY_PASSWORD = {"password", "keyboard-interactive"}


@pytest.mark.proof("login.key", timeout_s=30)
def test_the_key_opens_the_admin_users_session(proof: Proof, node: Node) -> None:
    user = proof.run(["id", "-un"], sudo=False).strip()
    root = proof.run(["id", "-u"]).strip()
    proof.equals("logged in by key as", user, node.connection.user, source="the inventory")
    proof.equals("user id under sudo", root, "0", action="give the admin user its sudo rights")


@pytest.mark.proof("login.password_refused", timeout_s=60)
def test_sshd_offers_no_login_by_password(proof: Proof, node: Node) -> None:
    for user in dict.fromkeys((node.connection.user, "root")):
        offered = proof.logins_offered(user)
        proof.holds(
            bool(offered) and not BY_PASSWORD & set(offered),
            wanted=f"{user}: no login by password",
            read=f"{user}: {', '.join(offered) or 'let in without any'}",
            source="sshd's answer on the wire",
            action="converge role access, and look for a Match block in sshd_config",
        )
