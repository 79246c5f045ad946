# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import struct
import zlib

import pytest

import slipstream

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCENE = 900000017  # held out


def png_of(width, height):
    """A black PNG's bytes."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + bytes(3 * width)) * height, 1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.fixture(scope="session")
def source():
    return SOURCE


@pytest.fixture(scope="session")
def engine():
    return slipstream.Engine.load(SOURCE / "models" / "demo", threads=int(os.environ.get("SLIP_THREADS", "0")))


@pytest.fixture(scope="session")
def ego():
    return {"intent": "GO_STRAIGHT", "history": [[-3.75 + i / 4, -30.0 + 2 * i, 0, 8, 0, 0, 0] for i in range(16)]}
