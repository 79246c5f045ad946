# SPDX-License-Identifier: Apache-2.0
"""Arguments of Engine.answer, stream and answer_async as a request of the library."""

from __future__ import annotations

import inspect
import json
import os
import re
import time
from typing import Any, Iterable, Mapping, Optional, Union

from . import _native
from ._native import Answer, CancelToken

_Path = Union[str, "os.PathLike[str]"]
_Image = Union[_Path, bytes, bytearray, memoryview, Any]

_TYPES = {"text": str, "whole": int, "number": float, "flag": bool}
_INITIAL = {"text": str, "whole": int, "number": float, "flag": lambda text: text == "true"}


def _settings():
    """The library's settings of a request that are arguments as they are, as keyword parameters. A row of the library's table is all
    that a new one needs."""
    taken = inspect.signature(_make_request).parameters
    return {
        name: inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=_INITIAL[kind](initial), annotation=_TYPES[kind].__name__
        )
        for name, kind, initial, _ in _native.request_options()
        if kind in _TYPES and name not in taken
    }


def settings_help(told):
    """A line of the library's own words for each of these settings that a docstring does not tell of. A flag that is usually set has
    words for what its absence does, as its option on the command line (`--no-activation`)."""
    words = {name: ("False: " if initial == "true" else "") + help for name, _, initial, help in _native.request_options()}
    return "".join(f"{name}: {words[name]}\n" for name in SETTINGS if words[name] and not re.search(rf"\b{name}\b", told))


def make_request(**arguments):
    """A request of these arguments. What is of a wrong type is told by its name, as TypeError or ValueError."""
    return request_of(arguments, time.monotonic())


def request_of(arguments, begun):
    """The same, with the time.monotonic() at which the answer was asked for: `timeout_s` is counted from there."""
    unknown = [name for name in arguments if name not in make_request.__signature__.parameters]
    if unknown:
        raise TypeError(f"got an unexpected keyword argument {unknown[0]!r}")
    own = {name: value for name, value in arguments.items() if name not in SETTINGS}
    request = _make_request(begun=begun, has_prompt=bool(arguments.get("prompt")), **own)
    for name in SETTINGS:
        if name in arguments:
            _set(request, name, arguments[name])
    return request


def _make_request(
    *,
    images: Optional[Iterable[_Image]] = None,
    videos: Iterable[Union[_Path, Iterable[_Image]]] = (),
    fps: float = 2.0,
    ego: Union[_Path, Mapping[str, Any], None] = None,
    messages: Optional[Iterable[Mapping[str, Any]]] = None,
    record: Optional[_Path] = None,
    scene: Optional[int] = None,
    form: Union[_Path, Mapping[str, Any], None] = "model",
    previous_answer: Optional[Union[Answer, str]] = None,
    section_temperatures: Optional[Mapping[str, float]] = None,
    trajectory_head: _Path = "",
    stop: Union[str, Iterable[str]] = (),
    timeout_s: Optional[float] = None,
    cancel: Optional[CancelToken] = None,
    begun: float,
    has_prompt: bool,
):
    request = _begin(record, scene, images, ego, has_prompt or messages)
    _set_end(request, cancel, timeout_s, begun)  # before files are read: that may be ended too
    if images is not None:
        request.set_images(_several("images", images))
    for video in _several("videos", videos):
        if not isinstance(video, (str, os.PathLike)):
            video = _several("video", video)
        request.add_video(video, number_of("fps", fps))
    if ego is not None:
        _set_ego(request, ego)
    if messages is not None:
        request.set_messages(_json_of("messages", list(_several("messages", messages))))
    for text in [stop] if isinstance(stop, str) else _several("stop", stop):
        request.set_option("stop", text_of("stop", text))
    request.set_option("trajectory_head", path_of("trajectory_head", "" if trajectory_head is None else trajectory_head))
    _set_form(request, form)
    if previous_answer is not None:
        request.previous_answer = _document_of(previous_answer)
    for section, temperature in _mapping("section_temperatures", {} if section_temperatures is None else section_temperatures).items():
        spelled = f"{section}={_spelled('section_temperatures', 'number', temperature)}"
        request.set_option("section_temperatures", _utf8("section_temperatures", spelled))
    return request


SETTINGS = _settings()
_OWN = [p for p in inspect.signature(_make_request).parameters.values() if p.name not in ("begun", "has_prompt")]
make_request.__signature__ = inspect.Signature([*_OWN, *SETTINGS.values()])


def _begin(record, scene, images, ego, prompt):
    if record is None and scene is None:
        return _native.Request()
    if images is not None or ego is not None or prompt or (record is not None and scene is not None):
        raise ValueError("record and scene bring images and ego history: expected one of them and no others, got more")
    if record is not None:
        return _native.Request.of_record(path_of("record", record))
    return _native.Request.of_scene(whole_of("scene", scene, least=0, most=2**64 - 1))


def _set_end(request, cancel, timeout_s, begun):
    if cancel is not None:
        request.set_cancel(_token_of(cancel))
    if timeout_s is not None:
        request.set_timeout(number_of("timeout_s", timeout_s), time.monotonic() - begun)


def token_of(cancel):
    """A token of its own for one answer, which the caller's ends too."""
    return CancelToken() if cancel is None else _native.child_of(_token_of(cancel))


def _token_of(cancel):
    if not isinstance(cancel, CancelToken):
        raise TypeError(f"cancel: expected a CancelToken, got {_shown(cancel)}")
    return cancel


def _set(request, name, value):
    kind = SETTINGS[name].annotation
    if value is None and kind == "str":
        value = ""
    request.set_option(name, _utf8(name, _spelled(name, {t.__name__: k for k, t in _TYPES.items()}[kind], value)))


def _spelled(name, kind, value):
    """A value as the library's table reads it; numpy's numbers count as numbers."""
    try:
        if kind == "flag" and type(value).__name__ in ("bool", "bool_"):
            return "true" if value else "false"
        if kind == "whole" and not isinstance(value, bool):
            return str(_written(value.__index__()))
        if kind == "number" and not isinstance(value, (bool, str, bytes)):
            return repr(float(value))
        if kind == "text" and not isinstance(value, bytes):
            return os.fspath(value)
    except (OverflowError, ValueError):  # 10**400 is no float
        raise ValueError(f"{name}: expected a number in its range, got {_shown(value)}") from None
    except (AttributeError, TypeError):
        pass
    raise TypeError(f"{name}: expected {_TYPES[kind].__name__}, got {_shown(value)}")


_MOST_BITS = 256  # more than any number here has; of 10**5000 Python writes no digits


def _written(number):
    if number.bit_length() > _MOST_BITS:
        raise OverflowError
    return number


def _shown(value):
    """A value as a message tells it."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    try:
        return repr(value)
    except ValueError:  # such a number is in it
        return f"a {type(value).__name__}"


def path_of(name, value):
    """The bytes of a path, as the system takes them."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name}: expected a path, got {_shown(value)}")
    try:
        return os.fsencode(value)
    except UnicodeEncodeError:
        raise ValueError(f"{name}: expected a path that the system can spell, got {_shown(value)}") from None


def folder_of(name, value):
    """A path that says something: the library would take an empty one for the current folder."""
    path = path_of(name, value)
    if not path:
        raise ValueError(f"{name}: expected a folder, got an empty path")
    return path


def text_of(name, value):
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected str, got {_shown(value)}")
    return _utf8(name, value)


def _utf8(name, value):
    """The same, where UTF-8 can hold it."""
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}: expected text that UTF-8 can hold, got a lone surrogate") from None
    return value


def whole_of(name, value, least=-(2**31), most=2**31 - 1):
    try:
        number = int(_spelled(name, "whole", value))
    except ValueError:
        number = value.__index__()
    if not least <= number <= most:
        raise ValueError(f"{name}: expected a whole number from {least} to {most}, got {_shown(number)}")
    return number


def number_of(name, value):
    return float(_spelled(name, "number", value))


def _several(name, values):
    if isinstance(values, (str, bytes, os.PathLike)):
        raise TypeError(f"{name}: expected several, got one: put it in a list")
    try:
        iter(values)
    except TypeError:
        raise TypeError(f"{name}: expected several, got {_shown(values)}") from None
    return values


def _mapping(name, value, expected="a dict"):
    try:
        return dict(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected {expected}, got {_shown(value)}") from None


def _json_of(name, value):
    def refuse(word):
        raise ValueError(f"{name}: expected finite numbers, got {float(word)}")

    try:
        text = json.dumps(value, default=_plain, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected what JSON can say, got another value: {error}") from None
    if "NaN" in text or "Infinity" in text:  # a number, or words in a text
        json.loads(text, parse_constant=refuse)
    return _utf8(name, text)


def _plain(value):
    """numpy's numbers and arrays as Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _document_of(previous_answer):
    if isinstance(previous_answer, str):
        return _utf8("previous_answer", previous_answer)
    if not hasattr(previous_answer, "to_json"):
        raise TypeError(f"previous_answer: expected an Answer or its to_json(), got {_shown(previous_answer)}")
    return previous_answer.to_json()


def _set_ego(request, ego):
    if isinstance(ego, (str, os.PathLike)):
        request.read_ego(path_of("ego", ego))
        return
    request.set_ego(_json_of("ego", _mapping("ego", ego, "a file or a dict")))


def _set_form(request, form):
    if form is None:
        request.set_option("form", "none")
    elif isinstance(form, (str, os.PathLike)):
        request.set_option("form", path_of("form", form))
    else:
        request.form_schema = _json_of("form", _mapping("form", form, "a name, a file, a dict or None"))
