# SPDX-License-Identifier: MIT
"""The one kind of error that sub-commands raise on purpose."""


class CofferError(Exception):
    """Something that the user can do something about; the message says what. No traceback is shown."""

    status = 1  # what the command ends with


class CannotStart(CofferError):
    """The program that the command was to start, as a shell says it: not found, or found and not to be run."""

    def __init__(self, program: str, error: OSError) -> None:
        super().__init__(f"{program}: {error.strerror}")
        self.status = 127 if isinstance(error, FileNotFoundError) else 126
