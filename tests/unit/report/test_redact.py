"""What looks like a secret is masked; what a technician needs stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.model.lifecycle import State
from nodeprep.report.redact import MASK, leaves, redact, secrets_in

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nAAtzc2gtZWQyNTUx\n"


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2", "PASSWORD: hunter2", "db_password = 'hunter2'", 'passwd="hunter2 x"',
        '{"password": "hunter2"}', r'{\"token\": \"hunter2\"}', "mysql --password hunter2",
        "--api-key=hunter2", "the secret is hunter2", "sshpass -p hunter2 ssh", "sshpass -phunter2",
        "Authorization: Bearer hunter2", "https://ops:hunter2@mirror.example/x",
        "NODEPREP_BOOTSTRAP_PASSWORD=hunter2", "DB_PASS=hunter2", "pass=hunter2",
        '{"pass": "hunter2"}', "aws_secret_access_key=hunter2,hunter2",
        f"{KEY}hunter2\n-----END OPENSSH PRIVATE KEY-----", f"{KEY}hunter2",
        "hunter2aaaaaaaaaaaaaaaaaaaa\n-----END RSA PRIVATE KEY-----",
    ],
)  # fmt: skip
def test_secrets_are_masked(text: str) -> None:
    assert "hunter2" in text
    assert "hunter2" not in redact(text)
    assert MASK in redact(text)


@pytest.mark.parametrize(
    "text",
    ["root:$6$saltsalt$abcdefgh12345678:19000", "AKIAABCDEFGHIJKLMNOP",
     "ghp_abcdefghijklmnop1234", "eyJhbGciOiJIUzI1.eyJzdWIiOiIx.SflKxwRJSM",
     "$ANSIBLE_VAULT;1.1;AES256"],
)  # fmt: skip
def test_what_has_the_shape_of_a_secret_is_masked(text: str) -> None:
    assert MASK in redact(text)


@pytest.mark.parametrize(
    "text",
    ["password login is off", "12 pass: all of them", "bypass = on",
     "the password is not needed", "GPU-5d0f1c0e at 0000:11:00.0",
     "https://developer.download.nvidia.com/x", "PasswordAuthentication no",
     "wanted sha256 9b1c2d3e, read 77aa", "00:1b:21:aa:bb:cc", "S64GNE0R1"],
)  # fmt: skip
def test_other_words_stay(text: str) -> None:
    assert redact(text) == text


def test_data_is_masked_text_by_text_and_under_telling_keys() -> None:
    data = {"a": ["token=x1y2z3"], "root_password": "short", "state": State.NEW, "n": 1}
    assert leaves(data, redact) == {
        "a": [f"token={MASK}"], "root_password": MASK, "state": State.NEW, "n": 1,
    }  # fmt: skip


def test_secrets_are_found_by_their_names() -> None:
    data = {"a": {"api_token": "one", "list": [{"vault_password": "two"}]}, "name": "three"}
    assert secrets_in(data) == {"one", "two"}


@given(st.text(max_size=300))
def test_masking_twice_is_masking_once(text: str) -> None:
    assert redact(redact(text)) == redact(text)
