#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the arguments of Engine.answer, stream and answer_async into slipstream/_engine.pyi, from the module's own table.

    PYTHONPATH=build/release/python python3 tools/python_stubs.py            # after a setting was added
    PYTHONPATH=build/release/python python3 tools/python_stubs.py --check    # exit status 1 where the file is not as it should be
"""

import inspect
import pathlib
import re
import sys

from slipstream._request import make_request

STUB = pathlib.Path(__file__).parents[1] / "python" / "slipstream" / "_engine.pyi"
METHOD = re.compile(r"(    (?:async )?def (?:answer|stream|answer_async)\(\n        self,\n        \*,\n).*?(    \) -> )", re.S)


def arguments():
    for p in inspect.signature(make_request).parameters.values():
        yield f"        {p.name}: {p.annotation} = {p.default!r},\n".replace("'", '"')


def renewed(text):
    lines = "".join(arguments())
    return METHOD.sub(lambda m: m[1] + lines + m[2], text)


def main():
    text = STUB.read_text()
    if "--check" not in sys.argv[1:]:
        STUB.write_text(renewed(text))
        return 0
    if text == renewed(text):
        return 0
    print(f"{STUB.name}: expected the arguments of the module, got others: run tools/python_stubs.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
