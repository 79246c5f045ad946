# SPDX-License-Identifier: Apache-2.0
"""Forms, and what a model folder holds."""

import json

from . import _native
from ._request import folder_of, path_of, text_of


def builtin_forms():
    """Names of the built-in forms."""
    return _native.builtin_forms()


def _asked(form, folder, unnorm_key):
    return path_of("form", form), path_of("folder", folder), text_of("unnorm_key", unnorm_key)


def form_schema(form, folder="", *, unnorm_key=""):
    """A form's JSON Schema document: of a built-in, of a file, or with a model's folder of "model"."""
    return json.loads(_native.form_schema(*_asked(form, folder, unnorm_key)))


def explain_form(form, folder="", *, unnorm_key=""):
    """A form explained: fixed tokens, fields, budgets, blocks, graph, critical path. Without a model's folder the counts of tokens are upper
    bounds."""
    return json.loads(_native.explain_form(*_asked(form, folder, unnorm_key)))


def inspect(folder):
    """Architecture, sizes, attributes, tokenizer and memory need of a model folder. Headers alone are read."""
    return json.loads(_native.inspect(folder_of("folder", folder)))
