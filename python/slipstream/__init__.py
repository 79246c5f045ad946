# SPDX-License-Identifier: Apache-2.0
"""Exact, fast decoding of structured answers of vision-language-action models.

    import slipstream

    engine = slipstream.Engine.load("models/demo")
    answer = engine.answer(images=["left.jpg", "front.jpg", "right.jpg"], ego="ego.json")
    print(answer.fields)
    print(answer.trajectory.points_4hz)
"""

from ._engine import Engine, Event
from ._errors import Error
from ._forms import builtin_forms, explain_form, form_schema, inspect
from ._native import (
    Action,
    Answer,
    CancelToken,
    DecoderUsed,
    ModelInfo,
    Statistics,
    Tokenizer,
    Trajectory,
    instruction_set,
    version,
)

__version__ = version()
__all__ = [
    "Action",
    "Answer",
    "CancelToken",
    "DecoderUsed",
    "Engine",
    "Error",
    "Event",
    "ModelInfo",
    "Statistics",
    "Tokenizer",
    "Trajectory",
    "builtin_forms",
    "explain_form",
    "form_schema",
    "inspect",
    "instruction_set",
    "version",
]

for _name in __all__:  # where a reader finds them, not where they are made
    if hasattr(globals()[_name], "__module__"):
        try:
            globals()[_name].__module__ = __name__
        except (AttributeError, TypeError):  # a built-in function
            pass
del _name
