#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server's promises, checked from outside: checks.py BINARY MODEL [--long] [NAME...]. A name chooses a check; without one all run.
Each prints a line, and a last one counts them: exit 1 if any fails, 77 if all that was asked for was skipped."""
import os, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import content_checks, head_checks, hostile_checks, load_checks, wire_checks  # they enter themselves, in this order
from asking import expect
from client import Server
from pressure import SlowHead
from registry import BINARY, CHECKS, LONG, MODEL, NAMES, Skipped, check


@check
def slow_headers_are_cut_off(server):
    """Ten seconds after they began, though bytes come all the time. The last check, so that others run meanwhile."""
    server.slow.join(60)
    took = server.slow.took_s
    expect(took is not None and took > 8, f"a head that does not end to be cut off after ten seconds, got {took}")
    expect(not LONG or took < 12, f"after {took:.1f} s")


def main():
    unknown = set(NAMES) - {f.__name__ for f in CHECKS}
    if unknown:
        print(f"checks.py: expected names of checks, got {', '.join(sorted(unknown))}; there are\n" + "\n".join(f.__name__ for f in CHECKS))
        return 2
    counts = {"ok": 0, "skip": 0, "FAIL": 0}

    def say(word, f, text):
        counts[word] += 1
        print(f"{word:4} {f.__name__}{text}", flush=True)

    with Server(BINARY, MODEL) as server:
        server.slow = SlowHead(server.port)
        for f in CHECKS:
            if NAMES and f.__name__ not in NAMES:
                continue
            begin = time.time()
            try:
                f(server)
                say("ok", f, f" ({time.time() - begin:.1f} s)")
            except Skipped as e:
                say("skip", f, f": {e}")
            except Exception as e:
                say("FAIL", f, f": {type(e).__name__}: {e}")
    print(f"{counts['ok']} held, {counts['skip']} skipped, {counts['FAIL']} failed", flush=True)
    return 1 if counts["FAIL"] else 0 if counts["ok"] else 77


sys.exit(main())
