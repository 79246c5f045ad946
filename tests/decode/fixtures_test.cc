// SPDX-License-Identifier: Apache-2.0
// Every decoder against recorded answers of two tiny models, token for token and round for round (tests/fixtures/decode).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "decode/decoder.h"
#include "decode/pass/choice.h"
#include "tests/decode/fixtures.h"

namespace slip {
namespace {

using namespace test;  // fixtures

std::vector<int32_t> ints_of(const json::value& v) {
  std::vector<int32_t> out;
  for (const auto& x : v.as_array()) out.push_back(int_of(x));
  return out;
}

Form form_of(const json::value& c) {
  Form::Parts parts;
  parts.name = std::string(c.at("name").as_string());
  int32_t section = 0;
  for (const auto& piece : c.at("form").as_array()) {
    const auto& o = piece.as_object();
    if (o.contains("section")) section = int_of(o.at("section"));
    if (o.contains("fixed")) {
      parts.pieces.emplace_back(FixedRun{ids_of(o.at("fixed")), section});
      continue;
    }
    Field f;
    f.name = std::string(o.at("field").as_string());
    f.budget = int_of(o.at("budget"));
    f.section = section;
    if (!o.at("end").is_null()) f.end = TokenId{int_of(o.at("end"))};
    if (!o.at("allowed").is_null()) f.rules = TokenRules::only(ids_of(o.at("allowed")));
    if (const auto* parents = o.if_contains("parents"))
      for (const auto& name : parents->as_array())
        for (size_t q = 0; q < parts.fields.size(); ++q)
          if (parts.fields[q].name == name.as_string()) f.parents.push_back(static_cast<int32_t>(q));
    parts.pieces.emplace_back(FieldRef{static_cast<int32_t>(parts.fields.size())});
    parts.fields.push_back(std::move(f));
  }
  for (int32_t s = 0; s <= section; ++s) parts.section_names.push_back(std::to_string(s));
  const auto* size = c.as_object().if_contains("block_size");
  if (size && size->is_int64()) {
    parts.block_size = int_of(*size);  // the partition must come out as recorded
  } else if (const auto* blocks = c.as_object().if_contains("blocks")) {
    for (const auto& b : blocks->as_array()) parts.blocks.push_back({int_of(b.at(0)), int_of(b.at(1))});
  }
  auto form = Form::make(std::move(parts));
  if (!form) throw std::runtime_error(form.error().message);
  return std::move(*form);
}

void expect_blocks(const Form& form, const json::value& c) {
  const auto& list = c.at("blocks").as_array();
  ASSERT_EQ(form.blocks().size(), list.size());
  for (size_t b = 0; b < list.size(); ++b) {
    EXPECT_EQ(form.blocks()[b].begin, int_of(list[b].at(0)));
    EXPECT_EQ(form.blocks()[b].end, int_of(list[b].at(1)));
  }
}

Decoded run(const json::value& c, std::string_view preset, const Form* form, DecodeOptions options, int32_t width = 8,
            float threshold = 0.9F) {
  Method method = *method_of(preset);
  method.draft_length.tokens = width;
  if (auto* v = std::get_if<ConfidenceSpec>(&method.verifier)) v->threshold = threshold;
  options.trace = true;
  auto answer = Decoder(model_of(c), method).decode(prompt_of_case(c), form, options);
  if (!answer) throw std::runtime_error(answer.error().message);
  return std::move(*answer);
}

DecodeOptions text_options(const json::value& c) {
  DecodeOptions o;
  o.end_tokens = {{0}};
  o.limit = int_of(c.at("limit"));
  return o;
}

DecodeOptions sampled(const json::value& c, DecodeOptions o) {
  o.temperature = c.at("temperature").to_number<float>();
  o.seed = std::stoull(std::string(c.at("seed").as_string()));
  o.request = static_cast<uint32_t>(c.at("request").as_int64());
  return o;
}

void expect_linear(const Decoded& d, const json::object& e) {
  EXPECT_EQ(d.statistics.forwards, e.at("forwards").as_int64());
  EXPECT_EQ(d.statistics.draft_forwards, e.at("draft_forwards").as_int64());
  const auto& rounds = e.at("rounds").as_array();
  ASSERT_EQ(d.rounds.size(), rounds.size());
  for (size_t r = 0; r < rounds.size(); ++r) {
    EXPECT_EQ(d.rounds[r].draft, ids_of(rounds[r].at("draft"))) << r;
    EXPECT_EQ(d.rounds[r].verify, ids_of(rounds[r].at("verify"))) << r;
    EXPECT_EQ(d.rounds[r].accepted, int_of(rounds[r].at("accepted"))) << r;
    EXPECT_EQ(d.rounds[r].emitted, ids_of(rounds[r].at("emitted"))) << r;
  }
  for (const auto& [key, mine] :
       {std::pair{"proposed", d.statistics.proposed}, {"tested", d.statistics.tested}, {"accepted", d.statistics.accepted}})
    if (e.contains(key)) {
      EXPECT_EQ(mine, e.at(key).as_int64()) << key;
    }
}

void expect_spec(const Decoded& d, const json::object& e) {
  EXPECT_EQ(d.statistics.forwards, e.at("forwards").as_int64());
  EXPECT_EQ(d.statistics.draft_forwards, e.at("draft_forwards").as_int64());
  EXPECT_EQ(d.statistics.proposed, e.at("proposed").as_int64());
  EXPECT_EQ(d.statistics.tested, e.at("tested").as_int64());
  EXPECT_EQ(d.statistics.accepted, e.at("accepted").as_int64());
  const auto& rounds = e.at("rounds").as_array();
  ASSERT_EQ(d.rounds.size(), rounds.size());
  for (size_t r = 0; r < rounds.size(); ++r) {
    const Round& mine = d.rounds[r];
    const auto& o = rounds[r].as_object();
    EXPECT_EQ((std::vector<int32_t>{mine.block.begin, mine.block.end}), ints_of(o.at("block"))) << r;
    EXPECT_EQ((std::vector<int32_t>{mine.rows.begin, mine.rows.end}), ints_of(o.at("rows"))) << r;
    EXPECT_EQ(mine.positions, ints_of(o.at("positions"))) << r;
    EXPECT_EQ(mine.draft, ids_of(o.at("draft"))) << r;
    EXPECT_EQ(mine.verify, ids_of(o.at("verify"))) << r;
    EXPECT_EQ(mine.accepted, int_of(o.at("accepted"))) << r;
    EXPECT_EQ(mine.stop.value_or(-1), o.at("stop").is_null() ? -1 : int_of(o.at("stop"))) << r;
    EXPECT_EQ(mine.bonus.value_or(TokenId{-1}).value, o.contains("bonus") ? int_of(o.at("bonus")) : -1) << r;
  }
}

TEST(Fixtures, Ar) {
  const auto file = load("ar");
  for (const auto& c : file.at("cases").as_array()) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    const Decoded d = run(c, "ar", nullptr, text_options(c));
    EXPECT_EQ(d.tokens, ids_of(c.at("expected").at("tokens")));
    EXPECT_EQ(d.statistics.forwards, c.at("expected").at("forwards").as_int64());
  }
}

TEST(Fixtures, SelfSpec) {
  const auto file = load("linear");
  for (const auto& c : file.at("cases").as_array()) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    const Decoded d = run(c, "self-spec", nullptr, text_options(c), int_of(c.at("width")));
    EXPECT_EQ(d.tokens, ids_of(c.at("expected").at("tokens")));
    expect_linear(d, c.at("expected").as_object());
    EXPECT_EQ(run(c, "ar", nullptr, text_options(c)).tokens, d.tokens);
  }
}

TEST(Fixtures, ScaffoldAr) {
  const auto file = load("scaffold_ar");
  for (const auto& c : file.at("cases").as_array()) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    const Form form = form_of(c);
    const auto& e = c.at("expected");
    const Decoded d = run(c, "scaffold-ar", &form, {});
    EXPECT_EQ(d.tokens, ids_of(e.at("tokens")));
    EXPECT_EQ(d.statistics.forwards, e.at("forwards").as_int64());
    EXPECT_EQ(d.statistics.forced_tokens, e.at("forced_tokens").as_int64());
    for (size_t f = 0; f < d.fields.size(); ++f) EXPECT_EQ(d.fields[f], ids_of(e.at("fields").at(form.fields()[f].name)));
    const Decoded forced = run(c, "ar", &form, {.forced = true});
    EXPECT_EQ(forced.tokens, d.tokens);
    EXPECT_GT(forced.statistics.forwards, d.statistics.forwards);
    EXPECT_EQ(run(c, "scaffold-spec", &form, {}).tokens, d.tokens);
  }
}

TEST(Fixtures, ScaffoldSpec) {
  const auto file = load("scaffold_spec");
  for (const auto& c : file.at("cases").as_array()) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    const Form form = form_of(c);
    expect_blocks(form, c);
    const Decoded d = run(c, "scaffold-spec", &form, {});
    EXPECT_EQ(d.tokens, ids_of(c.at("expected").at("tokens")));
    expect_spec(d, c.at("expected").as_object());
    EXPECT_EQ(run(c, "scaffold-ar", &form, {}).tokens, d.tokens);
  }
}

TEST(Fixtures, SectionDiffusion) {
  const auto file = load("section_diffusion");
  for (const auto& c : file.at("cases").as_array()) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    const Form form = form_of(c);
    expect_blocks(form, c);
    const auto& e = c.at("expected");
    const Decoded d = run(c, "section-diffusion", &form, {}, 8, c.at("threshold").to_number<float>());
    EXPECT_EQ(d.tokens, ids_of(e.at("tokens")));
    EXPECT_TRUE(d.lossy);
    EXPECT_EQ(d.statistics.forwards, e.at("forwards").as_int64());
    EXPECT_EQ(d.statistics.draft_forwards, e.at("draft_forwards").as_int64());
    size_t r = 0;
    for (const auto& block : e.at("trace").as_array())
      for (const auto& pass : block.at("passes").as_array()) {
        while (r < d.rounds.size() && d.rounds[r].positions.empty()) ++r;
        ASSERT_LT(r, d.rounds.size());
        const Round& mine = d.rounds[r++];
        EXPECT_EQ(mine.positions, ints_of(pass.at("positions")));
        EXPECT_EQ(mine.draft, ids_of(pass.at("tokens")));
        EXPECT_EQ(mine.committed, ints_of(pass.at("committed")));
        for (size_t i = 0; i < mine.confidence.size(); ++i)
          EXPECT_NEAR(mine.confidence[i], pass.at("confidence").at(i).to_number<double>(), 1e-4);
      }
  }
}

TEST(Fixtures, SampledText) {
  const auto file = load("sampled_text");
  for (const auto& c : file.at("cases").as_array()) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    const auto& e = c.at("expected");
    const DecodeOptions o = sampled(c, text_options(c));
    const Decoded ar = run(c, "ar", nullptr, o);
    EXPECT_EQ(ar.tokens, ids_of(e.at("tokens")));
    EXPECT_EQ(ar.statistics.forwards, e.at("ar").at("forwards").as_int64());
    const Decoded spec = run(c, "self-spec", nullptr, o, int_of(c.at("width").at("self-spec")));
    EXPECT_EQ(spec.tokens, ar.tokens);
    expect_linear(spec, e.at("self-spec").as_object());
  }
}

TEST(Fixtures, SampledForms) {
  const auto file = load("sampled_forms");
  int found = 0;
  for (const auto& c : file.at("cases").as_array()) {
    if (!c.at("expected").as_object().contains("scaffold-ar")) continue;
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    ++found;
    const Form form = form_of(c);
    const auto& e = c.at("expected");
    const DecodeOptions o = sampled(c, {});
    const Decoded ar = run(c, "scaffold-ar", &form, o);
    EXPECT_EQ(ar.tokens, ids_of(e.at("tokens")));
    EXPECT_EQ(ar.statistics.forwards, e.at("scaffold-ar").at("forwards").as_int64());
    const Decoded spec = run(c, "scaffold-spec", &form, o);
    EXPECT_EQ(spec.tokens, ar.tokens);
    expect_spec(spec, e.at("scaffold-spec").as_object());
  }
  EXPECT_EQ(found, 4);
}

void expect_fields(const Form& form, const Decoded& d, const json::value& e) {
  for (size_t f = 0; f < form.fields().size(); ++f) EXPECT_EQ(d.fields[f], ids_of(e.at(form.fields()[f].name))) << f;
}

/// The engine runs the first round with the prefill: one pass fewer than the plain algorithm.
TEST(Fixtures, Fields) {
  const auto file = load("fields");
  for (const auto& c : file.at("cases").as_array()) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    const Form form = form_of(c);
    const auto& e = c.at("expected");
    DecodeOptions o{.visibility = Visibility::kGraph};
    const Decoded one = run(c, "scaffold-ar", &form, o);
    expect_fields(form, one, e.at("fields"));
    EXPECT_EQ(one.statistics.forwards, e.at("sequential").at("forwards").as_int64() - 1);
    EXPECT_EQ(one.statistics.critical_path, e.at("sequential").at("critical_path").as_int64());
    const Decoded all = run(c, "fields", &form, o);
    expect_fields(form, all, e.at("fields"));
    EXPECT_EQ(all.statistics.forwards, e.at("parallel").at("passes").as_int64());
    EXPECT_EQ(all.statistics.critical_path, e.at("parallel").at("passes").as_int64());
    if (c.at("equals_chain_law").as_bool()) {
      EXPECT_EQ(run(c, "scaffold-ar", &form, {}).fields, all.fields);
    }
  }
}

/// Rounds of one pass, by field, against a fixture's list.
void expect_field_trace(const Form& form, const Decoded& d, const json::array& passes) {
  size_t at = 0;
  for (const auto& pass : passes) {
    for (const auto& mine : pass.as_array()) {
      ASSERT_LT(at, d.rounds.size());
      const auto name = mine.at("field").as_string();
      // Fields of one pass stand in the graph's order here, in the form's order there.
      size_t found = at;
      while (found < d.rounds.size() && form.fields()[static_cast<size_t>(*d.rounds[found].field)].name != name) ++found;
      ASSERT_LT(found, d.rounds.size());
      const Round& r = d.rounds[found];
      EXPECT_EQ(r.number, d.rounds[at].number);
      const Field& f = form.fields()[static_cast<size_t>(*r.field)];
      std::vector<TokenId> draft;
      for (const auto& x : mine.at("draft").as_array()) draft.push_back(x.is_string() ? *f.end : TokenId{int_of(x)});
      EXPECT_EQ(r.draft, draft);
      const auto* discarded = mine.as_object().if_contains("discarded");
      EXPECT_EQ(r.discarded, discarded && discarded->as_bool());
      if (!r.discarded) {
        EXPECT_EQ(r.emitted, ids_of(mine.at("committed")));
        EXPECT_EQ(r.closed, mine.at("closed").as_bool());
      }
    }
    at += pass.as_array().size();
  }
  EXPECT_EQ(at, d.rounds.size());
}

/// A stored token that the field does not allow is dropped here, where the plain algorithm tests it in vain: same passes, fewer rows.
bool all_allowed(const Form& form, const PreviousAnswer& previous) {
  for (size_t f = 0; f < form.fields().size(); ++f)
    if (!form.fields()[f].rules.state_after(previous.fields[f])) return false;
  return true;
}

TEST(Fixtures, FieldsSpecFromStoredDrafts) {
  const auto file = load("fields_spec_stored");
  int traced = 0;
  for (const auto& c : file.at("cases").as_array()) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    const Form form = form_of(c);
    const auto& e = c.at("expected");
    PreviousAnswer previous{.form = form.name(), .fields = {}, .tokens = {}};
    for (const Field& f : form.fields()) previous.fields.push_back(ids_of(e.at("drafts").at(f.name)));
    for (const bool activation : {false, true}) {
      const auto& x = e.at(activation ? "with_activation" : "without_activation").as_object();
      Method m = *method_of("fields");
      m.drafter = PreviousSpec{};
      m.draft_length.tokens = int_of(c.at("width"));
      DecodeOptions o{.visibility = Visibility::kGraph, .activation = activation, .trace = true};
      const auto d = Decoder(model_of(c), m).decode(prompt_of_case(c), &form, o, {.previous = &previous});
      ASSERT_TRUE(d) << d.error().message;
      expect_fields(form, *d, e.at("fields"));
      EXPECT_EQ(d->statistics.forwards, x.at("passes").as_int64());
      EXPECT_EQ(d->statistics.accepted, x.at("accepted").as_int64());
      if (!all_allowed(form, previous)) continue;
      ++traced;
      EXPECT_EQ(d->statistics.proposed, x.at("proposed").as_int64());
      EXPECT_EQ(d->statistics.tested, x.at("tested").as_int64());
      expect_field_trace(form, *d, x.at("trace").as_array());
    }
  }
  EXPECT_GT(traced, 20);
}

TEST(Fixtures, FieldsSpecByDiffusion) {
  const auto file = load("fields_spec_self");
  for (const auto& c : file.at("cases").as_array()) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    const Form form = form_of(c);
    const auto& e = c.at("expected");
    DecodeOptions o{.visibility = Visibility::kGraph, .activation = false};
    const Decoded d = run(c, "fields-spec", &form, o, int_of(c.at("width")));
    expect_fields(form, d, e.at("fields"));
    EXPECT_EQ(d.statistics.forwards, e.at("forwards").as_int64() - 1);
    EXPECT_EQ(d.statistics.proposed, e.at("proposed").as_int64());
    EXPECT_EQ(d.statistics.tested, e.at("tested").as_int64());
    EXPECT_EQ(d.statistics.accepted, e.at("accepted").as_int64());
    expect_field_trace(form, d, e.at("trace").as_array());
    o.activation = true;
    const Decoded started = run(c, "fields-spec", &form, o, int_of(c.at("width")));
    EXPECT_EQ(started.fields, d.fields);
    EXPECT_LE(started.statistics.forwards, d.statistics.forwards);
  }
}

TEST(Fixtures, KeyedUniformsAndDraws) {
  const auto file = load("philox");
  for (const auto& c : file.at("cases").as_array()) {
    const DrawKey key{static_cast<uint32_t>(c.at("request").as_int64()), static_cast<uint32_t>(c.at("field").as_int64()),
                      static_cast<uint32_t>(c.at("index").as_int64()), static_cast<Purpose>(c.at("purpose").as_int64())};
    const uint64_t seed = std::stoull(std::string(c.at("seed").as_string()));
    const auto words = philox4x32({key.request, key.field, key.index, static_cast<uint32_t>(key.purpose)},
                                  {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(words[i], c.at("words").at(i).as_int64());
    // A uniform is a whole number of 2^-25; the JSON reader may be off by one unit in the last place of a double.
    EXPECT_EQ(keyed_uniform(seed, key) * 0x1p25, std::round(c.at("uniform").as_double() * 0x1p25));
  }
  for (const auto& c : file.at("draws").as_array()) {
    std::vector<float> logits;
    for (const auto& x : c.at("logits").as_array()) logits.push_back(x.to_number<float>());
    std::vector<TokenId> listed;
    Allowed allowed;
    if (!c.at("allowed").is_null()) {
      listed = ids_of(c.at("allowed"));
      allowed = {false, {}, listed};
    }
    EXPECT_EQ(keyed_draw(logits, allowed, c.at("temperature").to_number<double>(), c.at("uniform").to_number<double>()).value,
              int_of(c.at("token")));
  }
}

}  // namespace
}  // namespace slip
