# SPDX-License-Identifier: Apache-2.0
"""One answer: what is asked, and what comes back."""

import json

import numpy as np
import pytest

import slipstream
from conftest import SCENE


def test_an_answer_has_fields_a_plan_and_statistics(engine):
    answer = engine.answer(scene=SCENE)
    assert answer.valid
    assert answer["future_meta_behavior.longitudinal"] in ("keep speed", "speed up", "slow down", "come to stop")
    assert list(answer.fields) == list(answer.texts)
    assert "explanation" in answer and "nothing of the kind" not in answer
    with pytest.raises(KeyError):
        answer["nothing of the kind"]
    assert answer.trajectory.waypoints.shape == (5, 2)
    assert answer.trajectory.points_4hz.shape == (20, 2)
    assert answer.action is None
    assert answer.tokens.dtype == np.int32 and len(answer.tokens) > 0
    assert 0 < answer.statistics.forwards <= answer.statistics.tokens
    assert not answer.decoder.lossy
    assert repr(answer).startswith("<slipstream.Answer: ")


def test_a_trajectory_head_plans_and_its_plans_are_events(engine, source, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(source / "tests" / "serve"))
    from random_head import write_random_head

    write_random_head(str(source / "models" / "demo"), str(tmp_path / "head"))
    own = engine.answer(scene=SCENE)
    assert own.plan_source == "answer"
    answer = engine.answer(scene=SCENE, trajectory_head=tmp_path / "head")
    assert answer.plan_source == "head" and answer.text == own.text and answer.statistics.head_ms > 0
    assert json.loads(answer.to_json())["answer_trajectory"]["waypoints"] == own.trajectory.waypoints.tolist()
    events = [e for e in engine.stream(scene=SCENE, trajectory_head=tmp_path / "head", fast_plan=True) if e.kind == "plan"]
    assert [e.name for e in events] == ["prompt", "critical_objects", "explanation", "future_meta_behavior"]
    assert events[-1].value["waypoints"] == answer.trajectory.waypoints.tolist()
    with pytest.raises(slipstream.Error):
        engine.answer(scene=SCENE, fast_plan=True)


def test_a_field_is_asked_for_by_its_name(engine):
    answer = engine.answer(scene=SCENE)
    assert list(answer) == list(answer.fields) and "\ud800" not in answer
    for none in ("nothing of the kind", "\ud800"):
        with pytest.raises(KeyError) as error:
            answer[none]
        assert error.value.args == (none,)
    for ask in (lambda: answer[0], lambda: 0 in answer):
        with pytest.raises(TypeError, match="^answer: expected a field's name, got 0$"):
            ask()
    text = engine.answer(prompt="The road ahead", form=None, max_tokens=1)
    assert list(text) == [] and text  # an answer without fields is one


def test_fields_are_those_of_the_result_object(engine):
    answer = engine.answer(scene=SCENE)
    result = json.loads(answer.to_json())
    assert result["fields"] == answer.fields
    assert result["answer"] == answer.text
    assert result["tokens"] == answer.tokens.tolist()
    assert result["trajectory"]["waypoints"] == answer.trajectory.waypoints.tolist()
    assert result["statistics"]["forwards"] == answer.statistics.forwards


def test_arrays_look_into_the_answer_and_cannot_be_written(engine):
    points = engine.answer(scene=SCENE).trajectory.points_4hz
    assert not points.flags.owndata and not points.flags.writeable
    assert np.isfinite(points).all()
    with pytest.raises(ValueError):
        points[0, 0] = 1


def test_every_exact_decoder_gives_the_same_tokens(engine):
    answers = [engine.answer(scene=SCENE, decoder=d, temperature=0.8, seed=11) for d in ("ar", "scaffold-ar", "scaffold-spec")]
    for other in answers[1:]:
        assert other.tokens.tolist() == answers[0].tokens.tolist()
    assert answers[2].statistics.forwards < answers[0].statistics.forwards
    assert answers[2].decoder.preset == "scaffold-spec"


def test_an_earlier_answer_drafts_the_next(engine):
    first = engine.answer(scene=SCENE)
    assert first.decoder.exact
    for earlier in (first, first.to_json()):
        again = engine.answer(scene=SCENE, previous_answer=earlier)
        assert again.tokens.tolist() == first.tokens.tolist()
        assert again.decoder.drafter.startswith("previous:") and again.decoder.exact
        assert 2 * again.statistics.forwards < first.statistics.forwards
    with pytest.raises(TypeError):
        engine.answer(scene=SCENE, previous_answer=7)
    with pytest.raises(slipstream.Error, match="previous_answer"):
        engine.answer(scene=SCENE, previous_answer=first, drafter="lookup")


def test_rejection_keeps_the_law_and_not_the_tokens(engine):
    drawn = engine.answer(scene=SCENE, verifier="rejection", temperature=0.8)
    assert not drawn.decoder.exact and not drawn.decoder.lossy


def test_the_seed_chooses_the_sample(engine):
    one, again, other = (engine.answer(scene=SCENE, temperature=1.5, seed=seed).text for seed in (1, 1, 2))
    assert one == again != other


def test_rollouts_tell_their_spread(engine):
    answer = engine.answer(scene=SCENE, temperature=1.0, rollouts=3)
    assert answer.trajectory.spread_m.shape == (20,)
    assert [rollout.shape for rollout in answer.trajectory.rollouts] == [(5, 2)] * 3
    assert answer.trajectory.rollouts[0].tolist() == answer.trajectory.waypoints.tolist()
    assert engine.answer(scene=SCENE).trajectory.rollouts == []


def test_the_likeliest_tokens_stand_beside_the_drawn_ones(engine):
    answer = engine.answer(scene=SCENE, log_probs=True, top_log_probs=3)
    drawn = 0
    for name, places in answer.top_log_probs.items():
        assert len(places) == len(answer.log_probs[name])
        for own, likely in zip(answer.log_probs[name], places):
            assert len(likely) <= 3 and likely == sorted(likely, key=lambda x: (-x[1], x[0]))
            if likely:
                drawn += 1
                assert abs(likely[0][1] - own) < 1e-12
    assert drawn > 10
    text = engine.answer(prompt="The road ahead", form=None, max_tokens=5, temperature=1.0, rollouts=2)
    assert len(text.finishes) == 2 and text.finishes[0] == text.finish


def test_a_schema_as_a_dict_is_the_form(engine):
    form = {
        "title": "weather",
        "type": "object",
        "properties": {"rain": {"enum": ["yes", "no"]}, "light": {"enum": ["day", "night"]}},
    }
    answer = engine.answer(scene=SCENE, form=form)
    assert set(answer.fields) == {"rain", "light"}
    assert answer["rain"] in ("yes", "no")


def test_free_text(engine):
    answer = engine.answer(prompt="The road ahead", form=None, max_tokens=5)
    assert answer.fields == {} and len(answer.tokens) <= 5


def test_the_png_and_the_trace(engine):
    answer = engine.answer(scene=SCENE, trace=True)
    assert answer.to_png().startswith(b"\x89PNG\r\n")
    assert json.loads(answer.trace_json())


def test_info_tells_what_was_loaded(engine):
    assert engine.info.vision and engine.info.device == "cpu"
    assert engine.info.vocab > 0 and engine.info.visibility == "chain"
    assert "slipstream.Engine" in repr(engine)


def test_progress_is_told_while_loading(source):
    told = []
    slipstream.Engine.load(source / "models" / "demo", progress=lambda *of: told.append(of))
    assert told and all(stage == "loading" and done >= 0 for stage, done, total in told)
