"""The errors that a user can cause or meet: typed, with an exit code, saying what to do.

Exit codes: 0 good, 1 failure of the tool, 2 drift or a failed gate, 3 unreachable, 4 bad input.
"""

from __future__ import annotations

EXIT_GOOD = 0
EXIT_TOOL_FAILURE = 1
EXIT_DRIFT = 2
EXIT_UNREACHABLE = 3
EXIT_BAD_INPUT = 4


class NodeprepError(Exception):
    """Something a person can act on. `hint` says how; neither text may carry a secret."""

    exit_code = EXIT_TOOL_FAILURE

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class ToolFailure(NodeprepError):
    """nodeprep, or a tool that it drives, did not do its work."""


class NodeFault(ToolFailure):
    """A node answers, but lacks what a step needs: python3, space on its disk, the apt lock."""


class ReadingFailed(ToolFailure):
    """A node ran the reader, or should have, and no usable answer came back."""


class LabUnavailable(ToolFailure):
    """This machine cannot run the lab; the message names what is missing."""


class Interrupted(NodeprepError):
    """The operator pressed Ctrl-C; the ledger holds a state from which the next run goes on."""

    exit_code = 130  # as every shell has it


class Unreachable(NodeprepError):
    """A node could not be spoken to."""

    exit_code = EXIT_UNREACHABLE


class HostKeyChanged(Unreachable):
    """The node's host key is not the one on record: another machine, or an attack."""


class HostKeyUnknown(Unreachable):
    """No host key is on record for the node: nobody has been there from this site."""


class LoginRefused(Unreachable):
    """The node answered and refused the key or the password."""


class BadInput(NodeprepError):
    """Inventory, profile or options are wrong. `problems`: all of them, a line each."""

    exit_code = EXIT_BAD_INPUT

    def __init__(self, message: str, *, problems: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.problems = problems

    def __str__(self) -> str:
        lines = [self.message, *(f"  - {problem}" for problem in self.problems)]
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)


def told(error: Exception) -> dict[str, str]:
    """An error as an event carries it from one process to another: its type, message and hint."""
    if not isinstance(error, NodeprepError):
        error = ToolFailure(
            f"{type(error).__name__}: {error}", hint="this is a fault of nodeprep; please report it"
        )
    message = error.message
    if isinstance(error, BadInput) and error.problems:
        message = "; ".join((message, *error.problems))
    return {"type": type(error).__name__, "message": message, "hint": error.hint}
