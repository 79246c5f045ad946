# SPDX-License-Identifier: Apache-2.0
"""Images and ego histories in all their shapes, and what is refused."""

import json
import sys

import numpy as np
import pytest

import slipstream
from conftest import SCENE

HEIGHT, WIDTH = 196, 224


@pytest.fixture(scope="module")
def pictures():
    noise = np.random.default_rng(7)
    return [noise.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8) for _ in range(3)]


@pytest.fixture(scope="module")
def text(engine, pictures, ego):
    return engine.answer(images=pictures, ego=ego).text


def test_images_matter(engine, pictures, ego, text):
    grey = engine.answer(images=[np.full_like(p, 128) for p in pictures], ego=ego)
    assert grey.tokens.size and engine.answer(images=pictures, ego=ego, blank_images=True).text == grey.text


def test_pixels_are_borrowed_while_the_answer_is_made_and_given_back(engine, pictures, ego):
    counts = [sys.getrefcount(p) for p in pictures]
    engine.answer(images=pictures, ego=ego)
    assert [sys.getrefcount(p) for p in pictures] == counts


def test_a_cut_out_of_a_larger_picture_reads_its_rows(engine, pictures, ego, text):
    large = [np.zeros((HEIGHT + 9, WIDTH + 7, 3), np.uint8) for _ in pictures]
    for frame, picture in zip(large, pictures):
        frame[4 : 4 + HEIGHT, 3 : 3 + WIDTH] = picture
    assert engine.answer(images=[f[4 : 4 + HEIGHT, 3 : 3 + WIDTH] for f in large], ego=ego).text == text


def test_mirrored_and_planar_pixels_are_copied_right(engine, pictures, ego, text):
    mirrored = [np.ascontiguousarray(p[:, ::-1])[:, ::-1] for p in pictures]
    planes = [np.ascontiguousarray(p.transpose(2, 0, 1)).transpose(1, 2, 0) for p in pictures]
    upside_down = [np.ascontiguousarray(p[::-1])[::-1] for p in pictures]
    for images in (mirrored, planes, upside_down):
        assert engine.answer(images=images, ego=ego).text == text


def test_read_only_arrays_memoryviews_and_rgba_are_pictures_too(engine, pictures, ego, text):
    frozen = [p.copy() for p in pictures]
    for p in frozen:
        p.setflags(write=False)
    assert engine.answer(images=frozen, ego=ego).text == text
    assert engine.answer(images=[memoryview(p) for p in pictures], ego=ego).text == text
    rgba = [np.concatenate([p, np.full((HEIGHT, WIDTH, 1), 255, np.uint8)], axis=2) for p in pictures]
    assert engine.answer(images=rgba, ego=ego).text == text


def test_files_and_their_bytes_are_pictures(engine, pictures, ego, text, tmp_path):
    files = []
    for i, picture in enumerate(pictures):
        files.append(tmp_path / f"{i}.ppm")
        files[-1].write_bytes(b"P6\n%d %d\n255\n" % (WIDTH, HEIGHT) + picture.tobytes())
    assert engine.answer(images=files, ego=ego).text == text
    assert engine.answer(images=[str(f) for f in files], ego=ego).text == text
    assert engine.answer(images=[f.read_bytes() for f in files], ego=ego).text == text


def test_an_object_with_an_array_interface_is_a_picture(engine, pictures, ego, text):
    class Picture:
        def __init__(self, pixels):
            self.__array_interface__ = pixels.__array_interface__
            self.pixels = pixels

    assert engine.answer(images=[Picture(p) for p in pictures], ego=ego).text == text


@pytest.mark.parametrize(
    "image, error",
    [
        (np.zeros((HEIGHT, WIDTH, 3), np.float32), TypeError),
        (np.zeros((HEIGHT, WIDTH, 2), np.uint8), ValueError),
        (np.zeros((2, HEIGHT, WIDTH, 3), np.uint8), ValueError),
        (np.zeros((0, WIDTH, 3), np.uint8), ValueError),
        (17, TypeError),
        (None, TypeError),
        (b"no picture", slipstream.Error),
        ("/no/such/picture.png", slipstream.Error),
    ],
)
def test_what_is_no_picture_is_refused(engine, ego, image, error):
    with pytest.raises(error):
        engine.answer(images=[image], ego=ego)


def test_one_picture_in_place_of_a_list_is_refused(engine, ego):
    with pytest.raises(TypeError, match="images"):
        engine.answer(images="front.png", ego=ego)


def test_ego_as_a_dict_an_array_and_a_file(engine, pictures, ego, text, tmp_path):
    (tmp_path / "ego.json").write_text(json.dumps(ego))
    for same in (tmp_path / "ego.json", {"intent": ego["intent"], "history": np.array(ego["history"])}):
        assert engine.answer(images=pictures, ego=same).text == text
    with pytest.raises(slipstream.Error) as error:
        engine.answer(images=pictures, ego={"intent": "GO_STRAIGHT", "history": []})
    assert error.value.kind == "bad_input"


def test_numbers_of_numpy_are_numbers_wherever_they_stand(engine, pictures, ego, text):
    rows = [np.array(row, np.float32) for row in ego["history"]]
    numbers = [[np.float32(number) for number in row] for row in ego["history"]]
    for history in (rows, tuple(rows), numbers, np.array(rows)):
        assert engine.answer(images=pictures, ego={"intent": ego["intent"], "history": history}).text == text
    properties = {"n": {"enum": np.array([1, 2])}, "m": {"enum": [np.int64(3), np.int64(4)]}}
    form = {"title": "numbers", "type": "object", "properties": properties, "required": ["n", "m"]}
    assert engine.answer(scene=SCENE, form=form)["m"] in (3, 4)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), np.float32("nan")], ids=str)
def test_numbers_that_are_none_are_named(engine, ego, number):
    words = rf"expected finite numbers, got {number}$"
    history = [[*row[:-1], number] for row in ego["history"]]
    for same in (history, np.array(history)):
        with pytest.raises(ValueError, match="^ego: " + words):
            engine.answer(ego={"intent": ego["intent"], "history": same})
    form = {"title": "NaN and Infinity", "type": "object", "properties": {"NaN": {"type": "number", "minimum": number}}}
    with pytest.raises(ValueError, match="^form: " + words):
        engine.answer(scene=SCENE, form=form)


LONE = "\ud800"


@pytest.mark.parametrize(
    "arguments, name",
    [
        ({"prompt": LONE}, "prompt"),
        ({"system": LONE, "prompt": "x"}, "system"),
        ({"scene": SCENE, "decoder": LONE}, "decoder"),
        ({"prompt": "x", "stop": [LONE]}, "stop"),
        ({"scene": SCENE, "section_temperatures": {LONE: 1}}, "section_temperatures"),
        ({"scene": SCENE, "previous_answer": LONE}, "previous_answer"),
        ({"messages": [{"role": "user", "content": LONE}]}, "messages"),
        ({"ego": {"intent": LONE}}, "ego"),
        ({"prompt": "x", "form": {"title": LONE}}, "form"),
    ],
)
def test_text_that_utf_8_cannot_hold_is_named(engine, arguments, name):
    with pytest.raises(ValueError, match=f"^{name}: expected text that UTF-8 can hold, got a lone surrogate$"):
        engine.answer(**arguments)


def test_a_tokenizer_names_what_is_no_text(source):
    tokenizer = slipstream.Tokenizer.load(source / "models" / "demo")
    with pytest.raises(ValueError, match="^text: expected text that UTF-8 can hold, got a lone surrogate$"):
        tokenizer.encode(LONE)
    with pytest.raises(TypeError, match="^text: expected str, got 5$"):
        tokenizer.encode(5)


def test_paths_that_the_system_cannot_spell_are_named(engine):
    for name, arguments in (("image", {"images": [LONE]}), ("ego", {"ego": LONE}), ("form", {"form": LONE})):
        with pytest.raises(ValueError, match=rf"^{name}: expected a path that the system can spell, got '\\ud800'$"):
            engine.answer(**arguments)


def test_an_empty_folder_is_not_the_current_one(source, monkeypatch):
    monkeypatch.chdir(source / "models" / "demo")
    for load in (slipstream.Engine.load, slipstream.Tokenizer.load, slipstream.inspect):
        for empty in ("", b""):
            with pytest.raises(ValueError, match="^folder: expected a folder, got an empty path$"):
                load(empty)
    assert slipstream.inspect(".")


def test_errors_have_a_kind_a_code_and_a_text(engine, source):
    with pytest.raises(slipstream.Error) as error:
        engine.answer(scene=SCENE, decoder="no-such-decoder")
    assert error.value.kind == "usage" and error.value.code == 2
    assert "expected" in str(error.value) and "no-such-decoder" in str(error.value)
    with pytest.raises(slipstream.Error) as error:
        slipstream.Engine.load(source / "no such folder")
    assert error.value.kind == "bad_input" and error.value.code == 3


def test_arguments_of_the_wrong_type_are_named(engine):
    with pytest.raises(TypeError, match="top_k: expected int"):
        engine.answer(scene=SCENE, top_k="many")
    with pytest.raises(TypeError, match="seed: expected int, got 1.5"):
        engine.answer(scene=SCENE, seed=1.5)
    with pytest.raises(slipstream.Error, match="seed: expected a whole number from 0"):
        engine.answer(scene=SCENE, seed=-1)
    with pytest.raises(TypeError, match="trace: expected bool, got 'yes'"):
        engine.answer(scene=SCENE, trace="yes")
    with pytest.raises(TypeError, match="section_temperatures: expected float, got 'hot'"):
        engine.answer(scene=SCENE, section_temperatures={"trajectory": "hot"})
    assert engine.answer(scene=SCENE, trajectory_head=None, drafter=None, max_rows=0).text  # None is what nobody says
    with pytest.raises(TypeError, match="no_such_argument"):
        engine.answer(scene=SCENE, no_such_argument=1)
    with pytest.raises(ValueError, match="record and scene"):
        engine.answer(scene=SCENE, prompt="and this")
    with pytest.raises(ValueError, match="timeout_s"):
        engine.answer(scene=SCENE, timeout_s=-1)


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"images": 5}, TypeError, "images: expected several, got 5"),
        ({"videos": 5}, TypeError, "videos: expected several, got 5"),
        ({"videos": [5]}, TypeError, "video: expected several, got 5"),
        ({"videos": [[]], "fps": "fast"}, TypeError, "fps: expected float, got 'fast'"),
        ({"ego": 5}, TypeError, "ego: expected a file or a dict, got 5"),
        ({"ego": {"intent": {1}}}, TypeError, "ego: expected what JSON can say"),
        ({"messages": 5}, TypeError, "messages: expected several, got 5"),
        ({"record": 5}, TypeError, "record: expected a path, got 5"),
        ({"scene": "first"}, TypeError, "scene: expected int, got 'first'"),
        ({"scene": -1}, ValueError, "scene: expected a whole number from 0 to 18446744073709551615, got -1"),
        ({"form": 5}, TypeError, "form: expected a name, a file, a dict or None, got 5"),
        ({"stop": 5}, TypeError, "stop: expected several, got 5"),
        ({"stop": [5]}, TypeError, "stop: expected str, got 5"),
        ({"section_temperatures": 5}, TypeError, "section_temperatures: expected a dict, got 5"),
        ({"trajectory_head": 5}, TypeError, "trajectory_head: expected a path, got 5"),
        ({"trajectory_head": 0}, TypeError, "trajectory_head: expected a path, got 0"),
        ({"trajectory_head": []}, TypeError, "trajectory_head: expected a path, got []"),
        ({"section_temperatures": 0}, TypeError, "section_temperatures: expected a dict, got 0"),
        ({"scene": 10**5000}, ValueError, "scene: expected a whole number from 0 to 18446744073709551615, got a number of 16610 bits"),
        ({"seed": 10**5000}, ValueError, "seed: expected a number in its range, got a number of 16610 bits"),
        ({"timeout_s": 10**400}, ValueError, "timeout_s: expected a number in its range, got a number of 1329 bits"),
        ({"temperature": 10**400}, ValueError, "temperature: expected a number in its range, got a number of 1329 bits"),
        ({"images": 10**5000}, TypeError, "images: expected several, got a number of 16610 bits"),
        ({"form": [10**5000]}, TypeError, "form: expected a name, a file, a dict or None, got a list"),
        ({"timeout_s": "soon"}, TypeError, "timeout_s: expected float, got 'soon'"),
        ({"cancel": 5}, TypeError, "cancel: expected a CancelToken, got 5"),
    ],
)
def test_what_has_a_type_of_its_own_is_checked_before_the_library_sees_it(engine, arguments, error, words):
    with pytest.raises(error) as raised:
        engine.answer(**arguments)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"folder": 5}, TypeError, "folder: expected a path, got 5"),
        ({"dtype": 8}, TypeError, "dtype: expected str, got 8"),
        ({"device": None}, TypeError, "device: expected str, got None"),
        ({"threads": "all"}, TypeError, "threads: expected int, got 'all'"),
        ({"slots": 1 << 40}, ValueError, "slots: expected a whole number from -2147483648 to 2147483647, got 1099511627776"),
        ({"progress": 5}, TypeError, "progress: expected a function or None, got 5"),
    ],
)
def test_loading_checks_its_arguments_before_the_library_sees_them(source, arguments, error, words):
    with pytest.raises(error) as raised:
        slipstream.Engine.load(**{"folder": source / "models" / "demo", **arguments})
    assert words in str(raised.value)


def test_functions_of_folders_take_any_path_and_name_what_is_none(source):
    folder = source / "models" / "demo"
    for same in (folder, str(folder), bytes(folder)):
        assert len(slipstream.Tokenizer.load(same)) > 256
        assert slipstream.inspect(same)
        assert slipstream.form_schema("model", same)
    for load in (slipstream.Tokenizer.load, slipstream.inspect):
        with pytest.raises(TypeError, match="folder: expected a path, got 5"):
            load(5)
    with pytest.raises(TypeError, match="form: expected a path, got 5"):
        slipstream.explain_form(5)
    with pytest.raises(TypeError, match="unnorm_key: expected str, got 5"):
        slipstream.form_schema("model", folder, unnorm_key=5)
