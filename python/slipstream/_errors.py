# SPDX-License-Identifier: Apache-2.0
"""What can go wrong."""

_CODES = {
    "internal": 1,
    "usage": 2,
    "bad_input": 3,
    "unsupported": 4,
    "resource": 5,
    "check_failed": 6,
    "cancelled": 130,
}


class Error(Exception):
    """The library's error. `kind` says what sort of thing is wrong:

    internal      the library
    usage         an option or argument
    bad_input     a file or a request
    unsupported   valid, but not done here
    resource      memory or device
    check_failed  a check that was asked for
    cancelled     CancelToken, timeout_s

    The text reads "<thing>: expected <x>, got <y>". `code` is the command line's exit code.
    """

    def __init__(self, kind, message):
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    @property
    def code(self):
        """The command line's exit code."""
        return _CODES[self.kind]

    def __str__(self):
        return self.message
