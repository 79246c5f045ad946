# SPDX-License-Identifier: Apache-2.0
"""The engine: a loaded model that answers requests."""

import asyncio
import concurrent.futures
import functools
import inspect
import json
import textwrap
import threading
import time
from dataclasses import dataclass
from typing import Any, Optional

from . import _native
from ._request import folder_of, make_request, request_of, settings_help, text_of, token_of, whole_of


@dataclass(frozen=True)
class Event:
    """Something was decided while an answer is decoded.

    kind        "field": a field is complete; "text": free text grew; "plan": a trajectory head has planned; "answer": the
                end
    name        of the field; of a plan "prompt" or the last section that was read; else ""
    value       of the field, as of JSON; of a plan {"waypoints", "fit", ...} as in the result object; else None
    text        as the answer spells the field, or the text that is new; else ""
    forwards    passes so far
    tokens      tokens so far
    elapsed_ms  since the answer began
    answer      the whole Answer, with kind "answer"; else None
    """

    kind: str
    name: str = ""
    value: Any = None
    text: str = ""
    forwards: int = 0
    tokens: int = 0
    elapsed_ms: float = 0.0
    answer: Optional[_native.Answer] = None


def _event(native):
    value = json.loads(native.json) if native.kind in ("field", "plan") else None
    return Event(native.kind, native.name, value, native.text, native.forwards, native.tokens, native.elapsed_ms)


def _asks(method):
    """The arguments of make_request, for help() and editors."""

    @functools.wraps(method)
    def asking(self, **arguments):
        return method(self, **arguments)

    asked = list(inspect.signature(make_request).parameters.values())
    own = [p for p in inspect.signature(method).parameters.values() if p.kind != p.VAR_KEYWORD]
    asking.__signature__ = inspect.Signature(own + asked)
    if method.__name__ == "answer":
        asking.__doc__ += "\n" + textwrap.indent(settings_help(method.__doc__), " " * 8)
    return asking


class Engine:
    """A loaded model. Threads may share it: their answers take turns.

        engine = slipstream.Engine.load("models/demo")
        answer = engine.answer(images=[left, front, right], ego="ego.json", decoder="scaffold-spec")
        print(answer["future_meta_behavior.longitudinal"], answer.trajectory.points_4hz)
    """

    def __init__(self, native):
        self._native = native

    @classmethod
    def load(cls, folder, *, dtype="auto", kv="auto", device="cpu", threads=0, slots=0, progress=None):
        """Loads a model folder: a Hugging Face folder as it is, or what `slipstream quantize` made of one.

        dtype     weights: "auto" (a packed folder's, config.json's, f32 for f32, else bf16), "f32", "bf16", "int8", "int4"
        kv        keys and values: "auto" (f32 beside f32 weights, else bf16), "f32", "bf16", "int8"
        device    where the decoder runs: "cpu", "cuda:0"
        threads   0: every core that this process may use
        slots     rows that the key/value cache holds; 0: 4096
        progress  called as progress(stage, done, total) from this thread
        """
        if progress is not None and not callable(progress):
            raise TypeError(f"progress: expected a function or None, got {progress!r}")
        words = [text_of(name, word) for name, word in (("dtype", dtype), ("kv", kv), ("device", device))]
        counts = [whole_of(name, count, most=2**31 - 1) for name, count in (("threads", threads), ("slots", slots))]
        return cls(_native.Engine.load(folder_of("folder", folder), *words, *counts, progress))

    @property
    def info(self):
        """What was loaded: a ModelInfo."""
        return self._native.info

    @_asks
    def answer(self, **arguments):
        """One answer. The GIL is free meanwhile; Ctrl-C raises KeyboardInterrupt within 50 ms.

        images    a list; each a path, an encoded file's bytes, or numpy.uint8 pixels, height x width (x 1, 3 or 4): these are borrowed,
                  not copied, where every row lies in one piece
        videos    a list; each a folder of frames or a list of images, `fps` frames a second
        ego       {"intent": "GO_STRAIGHT" | "GO_LEFT" | "GO_RIGHT", "history": n x 7 numbers t, x, y, vx, vy, ax, ay, oldest first}, or a
                  file of it: the prompt is made of it. At 4 Hz from -3.75 s to 0, or resampled to that
        prompt    text in place of ego; "<image>" marks where the images go; system: what is said before it
        messages  a conversation in place of prompt: [{"role": "user", "content": "..."}, ...]
        record    "SET:INDEX", or scene=SEED of the simulator: images and ego of it
        form      "model" (that it was trained for), a built-in's name, a JSON Schema as a file or a dict; None: free text
        decoder   a preset: "ar", "scaffold-spec", ...; schedule, drafter, verifier, width: parts in place of the preset's
        previous_answer
                  an earlier Answer in the same form (or its to_json()), such as the frame before: it drafts
        temperature, top_k, top_p, min_p, repetition_penalty, repetition_last, section_temperatures, seed
                  sampling; temperature 0 is greedy. Every exact decoder gives the same answer from the same seed
        rollouts  sampled trajectories, averaged after the fit
        fit       5 waypoints to 20 points: "auto", "paper", "minjerk", "rounded", "linear"
        trajectory_head
                  folder of a trajectory head: it plans in the answer's place, from the seed's noise; Answer.plan_source says "head", the
                  answer's own plan is in to_json(). fast_plan: it plans behind the prompt and every section too (Events "plan")
        others    as the options of `slipstream run` by the same names; `help(Engine.answer)` ends with what the library says of each
        stop      free text ends before this text, or the first of several; log_probs: Answer.log_probs;
                  top_log_probs: so many of the likeliest tokens at every place
        timeout_s the answer is to be finished so long after the call: Error of kind "cancelled", also between two pictures that are read
        cancel    a CancelToken to end it with from another thread, likewise
        """
        return self._start(make_request(**arguments), "nothing").result()

    @_asks
    def stream(self, **arguments):
        """The same as an iterator: Events of kind "field" or "text" as they are decided, at last one of kind "answer". Leaving the loop, or
        dropping the iterator before it begins, cancels. Pictures are read before this returns, and the iterator waits in the thread that
        asks it: within asyncio, both belong in another thread."""
        return _Stream(self._start(make_request(**arguments), "decided"))

    @_asks
    async def answer_async(self, **arguments):
        """The same for asyncio: the loop goes on meanwhile, while pictures are read too. Cancelling the task cancels the answer."""
        begun = time.monotonic()
        token = token_of(arguments.get("cancel"))
        finished, on_done = _woken()
        try:
            request = await _in_thread(functools.partial(request_of, {**arguments, "cancel": token}, begun))
            pending = self._start(request, "nothing", on_done)
            await finished
        except BaseException:  # the task was cancelled, or the coroutine is closed without one: nobody waits any more
            token.cancel()
            raise
        return pending.result()

    def _start(self, request, keep, on_done=None):
        return self._native.start(request, keep, on_done)

    def __repr__(self):
        return f"<slipstream.Engine: {self.info.model_type} of {self.info.folder}, {self.info.dtype} on {self.info.device}>"


def _woken():
    """A future of the running loop, and a function for other threads that ends it."""
    loop = asyncio.get_running_loop()
    finished = loop.create_future()

    def wake():
        if not finished.done():
            finished.set_result(None)

    def on_done():  # the loop may have been closed
        try:
            loop.call_soon_threadsafe(wake)
        except RuntimeError:
            pass

    return finished, on_done


async def _in_thread(work):
    """What `work()` gives, in a thread of its own: those of the loop's pool may all be waiting for answers."""
    finished, on_done = _woken()
    outcome = concurrent.futures.Future()

    def run():
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)
        on_done()

    threading.Thread(target=run, daemon=True, name="slipstream: reading").start()
    await finished
    return outcome.result()


def _events(pending):
    try:
        while (event := pending.next_event()) is not None:
            yield _event(event)
        answer = pending.result()
        took = answer.statistics
        yield Event("answer", text=answer.text, forwards=took.forwards, tokens=took.tokens, elapsed_ms=took.total_ms, answer=answer)
    finally:
        pending.cancel()


class _Stream:
    """The events of an answer under way. A generator alone would not do: one that has not begun runs nothing when it is dropped."""

    def __init__(self, pending):
        self._pending = pending
        self._events = _events(pending)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._events)

    def close(self):
        self._pending.cancel()
        self._events.close()

    def __del__(self):
        self._pending.cancel()
