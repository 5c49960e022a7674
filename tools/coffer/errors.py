"""The one kind of error that sub-commands raise on purpose."""


class CofferError(Exception):
    """Something that the user can do something about; the message says what. No traceback is shown."""
