# SPDX-License-Identifier: Apache-2.0
"""Arguments of Engine.answer, stream and answer_async as a request of the library."""

import json
import os

from . import _native

_TAKEN_AS_THEY_ARE = (
    "prompt",
    "system",
    "decoder",
    "schedule",
    "drafter",
    "verifier",
    "width",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "repetition_last",
    "visibility",
    "unnorm_key",
    "fit",
    "trajectory_head",
    "fast_plan",
    "seed",
    "rollouts",
    "max_tokens",
    "max_rows",
    "activation",
    "log_forced",
    "log_probs",
    "top_log_probs",
    "trace",
    "blank_images",
    "reuse_prompt",
)


def make_request(
    *,
    images=None,
    videos=(),
    fps=2.0,
    ego=None,
    prompt="",
    system="",
    messages=None,
    record=None,
    scene=None,
    form="model",
    decoder="",
    schedule="",
    drafter="",
    verifier="",
    width="",
    previous_answer=None,
    temperature=0.0,
    top_k=0,
    top_p=1.0,
    min_p=0.0,
    repetition_penalty=1.0,
    repetition_last=64,
    section_temperatures=None,
    visibility="",
    unnorm_key="",
    fit="paper",
    trajectory_head="",
    fast_plan=False,
    seed=0,
    rollouts=1,
    max_tokens=256,
    stop=(),
    max_rows=0,
    activation=True,
    log_forced=False,
    log_probs=False,
    top_log_probs=0,
    trace=False,
    blank_images=False,
    reuse_prompt=True,
    timeout_s=None,
    cancel=None,
):
    given = locals()
    request = _begin(record, scene, images, ego, prompt or messages)
    for name in _TAKEN_AS_THEY_ARE:
        value = given[name]
        _set(request, name, os.fspath(value) if isinstance(value, os.PathLike) else value)
    if images is not None:
        request.set_images(_several("images", images))
    for video in _several("videos", videos):
        request.add_video(video, fps)
    if ego is not None:
        _set_ego(request, ego)
    if messages is not None:
        request.set_messages(json.dumps(list(messages)))
    request.stop = [stop] if isinstance(stop, str) else list(stop)
    _set_form(request, form)
    if previous_answer is not None:
        request.previous_answer = _document_of(previous_answer)
    if section_temperatures:
        request.section_temperatures = list(dict(section_temperatures).items())
    if cancel is not None:
        request.set_cancel(cancel)
    if timeout_s is not None:
        request.set_timeout(timeout_s)
    return request


def _begin(record, scene, images, ego, prompt):
    if record is None and scene is None:
        return _native.Request()
    if images is not None or ego is not None or prompt or (record is not None and scene is not None):
        raise ValueError("record and scene bring images and ego history: expected one of them and no others, got more")
    if record is not None:
        return _native.Request.of_record(os.fspath(record))
    return _native.Request.of_scene(scene)


def _set(request, name, value):
    try:
        setattr(request, name, "" if value is None else value)
    except TypeError:
        expected = type(getattr(request, name)).__name__
        raise TypeError(f"{name}: expected {expected}, got {value!r}") from None


def _several(name, values):
    if isinstance(values, (str, bytes, os.PathLike)):
        raise TypeError(f"{name}: expected several, got one: put it in a list")
    return values


def _document_of(previous_answer):
    if isinstance(previous_answer, str):
        return previous_answer
    if not hasattr(previous_answer, "to_json"):
        raise TypeError(f"previous_answer: expected an Answer or its to_json(), got {previous_answer!r}")
    return previous_answer.to_json()


def _set_ego(request, ego):
    if isinstance(ego, (str, os.PathLike)):
        request.read_ego(os.fspath(ego))
        return
    document = dict(ego)
    history = document.get("history")
    if hasattr(history, "tolist"):  # a numpy array
        document["history"] = history.tolist()
    request.set_ego(json.dumps(document))


def _set_form(request, form):
    if form is None:
        request.form = "none"
    elif isinstance(form, (str, os.PathLike)):
        request.form = os.fspath(form)
    else:
        request.form_schema = json.dumps(form)
