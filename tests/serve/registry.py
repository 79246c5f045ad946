# SPDX-License-Identifier: Apache-2.0
"""What checks are asked for, and the list that they enter themselves in; checks.py runs it in order."""
import sys

args = [a for a in sys.argv[1:] if a != "--long"]
LONG = "--long" in sys.argv
BINARY, MODEL, NAMES = args[0], args[1], args[2:]
CHECKS = []


def check(f):
    CHECKS.append(f)
    return f


def timed(f):
    """A check by the clock, which a busy machine fails: with --long, or by its name."""
    return check(f) if LONG or f.__name__ in NAMES else f


class Skipped(Exception):
    """A check that needs what this machine has not."""
