# SPDX-License-Identifier: Apache-2.0
"""The stubs say what is there: names, arguments, defaults. And everything public has words."""

import ast
import inspect
import re
import subprocess
import sys

import pytest

import slipstream
from conftest import SCENE
from slipstream import _engine, _errors, _forms, _native

MODULES = {"_native": _native, "_engine": _engine, "_errors": _errors, "_forms": _forms}


def stub_of(source, name):
    return ast.parse((source / "python" / "slipstream" / f"{name}.pyi").read_text())


def members(cls):
    inherited = set(dir(object)) | set(dir(Exception))
    own = {n for n in vars(cls) if n not in inherited and not n.startswith("_pybind11") and not n.startswith("__")}
    return own | {n for n in ("__getitem__", "__contains__", "__iter__", "__len__") if n in vars(cls)}


def stub_members(node):
    names = set()
    for item in node.body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(item.name)
        elif isinstance(item, ast.AnnAssign):
            names.add(item.target.id)
    return names - {"__init__", "__str__"}


@pytest.mark.parametrize("name", MODULES)
def test_stubs_and_modules_have_the_same_classes_and_members(source, name):
    classes = {n.name: n for n in stub_of(source, name).body if isinstance(n, ast.ClassDef)}
    here = {n: c for n, c in vars(MODULES[name]).items() if inspect.isclass(c) and n in classes}
    assert set(here) == set(classes)
    for class_name, cls in here.items():
        ours = {m for m in members(cls) if not m.startswith("_") or m.startswith("__")}
        fields = set(getattr(cls, "__dataclass_fields__", {}))
        attributes = {"kind", "message"} if class_name == "Error" else set()
        assert ours | fields | attributes == stub_members(classes[class_name]), class_name


def test_the_native_stub_has_every_name(source):
    stub = {n.name for n in stub_of(source, "_native").body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    assert stub == {n for n in dir(_native) if not n.startswith("__")}


@pytest.mark.parametrize("name", ["answer", "stream", "answer_async", "load"])
def test_the_engine_stub_has_the_arguments_and_their_defaults(source, name):
    engine = next(n for n in stub_of(source, "_engine").body if isinstance(n, ast.ClassDef) and n.name == "Engine")
    stub = next(n for n in engine.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name == name)
    written = {a.arg: ast.literal_eval(d) for a, d in zip(stub.args.kwonlyargs, stub.args.kw_defaults)}
    signature = inspect.signature(getattr(slipstream.Engine, name))
    assert written == {p.name: p.default for p in signature.parameters.values() if p.kind == p.KEYWORD_ONLY}
    assert all(a.annotation is not None for a in stub.args.kwonlyargs)


def test_the_engine_stub_is_as_the_table_writes_it(source):
    done = subprocess.run([sys.executable, source / "tools" / "python_stubs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_everything_public_has_words():
    for name in slipstream.__all__:
        thing = getattr(slipstream, name)
        if inspect.isclass(thing):
            assert thing.__doc__, name
            for member, value in vars(thing).items():
                if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                    if thing not in (slipstream.Statistics, slipstream.DecoderUsed, slipstream.ModelInfo):  # their names say it
                        assert value.__doc__, f"{name}.{member}"


def test_help_tells_the_arguments():
    words = slipstream.Engine.answer.__doc__
    for argument in inspect.signature(slipstream.Engine.answer).parameters:
        assert argument == "self" or argument in words or argument == "fps", argument


def test_the_engine_s_example_names_a_field_that_there_is(engine):
    named = re.findall(r'answer\["(.*?)"\]', slipstream.Engine.__doc__)
    assert named and all(name in engine.answer(scene=SCENE) for name in named)


def test_the_kinds_of_events_are_those_that_streams_give(engine):
    kinds = slipstream.Event.__doc__.split("kind ")[1].split("\n    name")[0]
    given = {e.kind for asked in ({"scene": SCENE}, {"prompt": "x", "form": None, "max_tokens": 4}) for e in engine.stream(**asked)}
    assert set(re.findall(r'"(\w+)":', kinds)) == given | {"plan"}  # of a trajectory head: test_answer.py


def test_the_guide_tells_which_properties_are_arrays(source):
    classes = [n for n in stub_of(source, "_native").body if isinstance(n, ast.ClassDef)]
    properties = [p for c in classes for p in c.body if isinstance(p, ast.FunctionDef) and p.returns is not None]
    arrays = {p.name for p in properties if "NDArray" in ast.unparse(p.returns)}
    told = re.search(r"An answer's ([^.]*) are numpy arrays", (source / "docs" / "guide" / "embedding.md").read_text())
    assert told and set(re.findall(r"`(\w+)`", told[1])) == arrays


def test_public_names_say_where_they_are_found():
    assert slipstream.Engine.__module__ == slipstream.Answer.__module__ == slipstream.Error.__module__ == "slipstream"
    assert slipstream.__version__ == slipstream.version()


def test_forms_and_folders(source):
    assert "wod-e2e" in slipstream.builtin_forms()
    assert slipstream.form_schema("wod-e2e")["type"] == "object"
    assert slipstream.explain_form("wod-e2e", source / "models" / "demo")
    assert slipstream.inspect(source / "models" / "demo")
    tokenizer = slipstream.Tokenizer.load(str(source / "models" / "demo"))
    ids = tokenizer.encode("slow down")
    assert tokenizer.decode(ids) == "slow down" and len(tokenizer) > max(ids)
