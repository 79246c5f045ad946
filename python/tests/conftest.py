# SPDX-License-Identifier: Apache-2.0
import os
import pathlib

import pytest

import slipstream

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCENE = 900000017  # held out


@pytest.fixture(scope="session")
def source():
    return SOURCE


@pytest.fixture(scope="session")
def engine():
    return slipstream.Engine.load(SOURCE / "models" / "demo", threads=int(os.environ.get("SLIP_THREADS", "0")))


@pytest.fixture(scope="session")
def ego():
    return {"intent": "GO_STRAIGHT", "history": [[-3.75 + i / 4, -30.0 + 2 * i, 0, 8, 0, 0, 0] for i in range(16)]}
