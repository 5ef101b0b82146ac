"""A file that is not there is shown as what would be written, if it may be shown."""

from __future__ import annotations

from typing import Any

from nodeprep.judge.files import NEW_FILE_LINES, judge_file
from nodeprep.judge.shapes import FileData
from nodeprep.model.claim import File

MISSING = FileData.model_validate({"exists": False})


def diff_of(**claim: Any) -> list[str]:
    return judge_file(File(name="/etc/a.conf", **claim), MISSING).diff.splitlines()


def test_a_missing_file_is_a_diff_of_added_lines() -> None:
    assert diff_of(content="one\ntwo\n")[2:] == ["@@ -0,0 +1,2 @@", "+one", "+two"]


def test_a_long_file_is_cut_and_says_so() -> None:
    lines = diff_of(content="\n".join(map(str, range(100))))
    assert len(lines) == NEW_FILE_LINES + 1
    assert lines[-1] == "… 63 more lines"


def test_a_secret_file_is_never_shown() -> None:
    assert diff_of(content="hunter2", secret=True) == []


def test_a_file_whose_content_the_document_does_not_hold_has_no_diff() -> None:
    assert diff_of(template="a.j2", sha256="0" * 64) == []
