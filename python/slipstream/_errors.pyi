from typing import Literal

ErrorKind = Literal["internal", "usage", "bad_input", "unsupported", "resource", "check_failed", "cancelled"]

class Error(Exception):
    kind: ErrorKind
    message: str
    def __init__(self, kind: ErrorKind, message: str) -> None: ...
    @property
    def code(self) -> int: ...
    def __str__(self) -> str: ...
