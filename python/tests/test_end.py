# SPDX-License-Identifier: Apache-2.0
"""How a program ends: its daemon threads, and the children that it forks."""

import subprocess
import sys
import textwrap

import pytest

from conftest import SCENE

RUNS = 4  # of each program: whether a thread is inside of a call at the end is chance
CALLS = {
    "a tokenizer is loaded": "slipstream.Tokenizer.load(folder)",
    "a folder is inspected": "slipstream.inspect(folder)",
    "a form is explained": "slipstream.explain_form('wod-e2e', folder)",
    "a text is encoded": "tokenizer.encode('slow down ' * 9999)",
    "an answer is made": f"engine.answer(scene={SCENE})",
    "a stream is read": f"list(engine.stream(scene={SCENE}))",
    "a model is loaded": "slipstream.Engine.load(folder, threads=1)",
}


def run(program):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_program_ends_quietly_while_its_daemon_threads_are_in_a_call(source, call):
    program = f"""
        import threading, time
        import slipstream
        folder = {str(source / "models" / "demo")!r}
        engine = slipstream.Engine.load(folder, threads=1)
        tokenizer = slipstream.Tokenizer.load(folder)
        begun = threading.Barrier(3)
        def loop():
            begun.wait()
            while True:
                {call}
        for _ in range(2):
            threading.Thread(target=loop, daemon=True).start()
        begun.wait()
        time.sleep(0.1)
        """
    for _ in range(RUNS):
        done = run(program)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_ends_behind_the_library_may_still_ask(source):
    program = f"""
        import atexit
        atexit.register(lambda: print(engine.answer(scene={SCENE}).valid))
        import slipstream
        engine = slipstream.Engine.load({str(source / "models" / "demo")!r}, threads=1)
        """
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_a_fork_is_told_that_an_answer_is_not_its_own(source):
    program = f"""
        import os, signal
        import slipstream
        engine = slipstream.Engine.load({str(source / "models" / "demo")!r}, threads=1)
        stream = engine.stream(prompt="x", form=None, max_tokens=400, decoder="ar")
        pending = engine._native.start(slipstream._request.make_request(scene={SCENE}), "nothing", None)
        next(stream)
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # in place of a hang
            for ask in (lambda: list(stream), lambda: engine.answer(scene={SCENE}), pending.result, lambda: pending.done):
                try:
                    ask()
                except slipstream.Error as error:
                    assert error.kind == "unsupported" and "fork" in str(error), str(error)
                else:
                    os._exit(1)
            stream.close()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert pending.result().valid and list(stream)[-1].kind == "answer"  # the parent's go on
        """
    done = run(program)
    assert done.returncode == 0, done.stderr  # newer Pythons warn of forks
