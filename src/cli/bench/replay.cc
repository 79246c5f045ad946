// SPDX-License-Identifier: Apache-2.0
// See replay.h.
#include "cli/bench/replay.h"

#include <algorithm>

#include "base/content_hash.h"
#include "base/measure.h"
#include "lm/pass_answers.h"

namespace slip::cli {
namespace {

constexpr float kSure = 1e9F;  // a logit

ReplayKind kind_of(const Pass& pass) {
  bool drafts = false;
  for (const Row& r : pass.rows) {
    if (std::holds_alternative<Feature>(r.input)) return ReplayKind::kPrefill;
    drafts |= r.input == RowInput{ReplayIds::kMask};
  }
  return drafts ? ReplayKind::kDraft : ReplayKind::kVerify;
}

}  // namespace

ReplayLm::ReplayLm(Lm* inner, LmInfo info, Recording recording, int every)
    : inner_(inner), info_(std::move(info)), recording_(std::move(recording)), every_(every) {
  attempts_.assign(recording_.target.size(), 0);
}

Status ReplayLm::run(const Pass& pass, ReplayPass& entry, PassOutput& out) {
  const bool one = entry.kind != ReplayKind::kPrefill && entry.rows == 1;
  entry.ran = inner_ && (!one || ones_++ % static_cast<uint64_t>(every_) == 0);
  if (!entry.ran) {
    entry.ms = inner_ ? last_one_ms_ : 0;
    begin_output(pass, info_, out);
    lay_out_logits(pass, 0, out);
    return {};
  }
  const auto start = Clock::now();
  SLIP_TRY_(inner_->forward(pass, out));
  entry.ms = ms_since(start);
  if (one) last_one_ms_ = entry.ms;
  return {};
}

void ReplayLm::SaidLogits::say(int32_t line, TokenId id) {
  if (said_.size() <= static_cast<size_t>(line)) said_.resize(static_cast<size_t>(line) + 1);
  said_[static_cast<size_t>(line)] = {id, kSure};
}

Result<std::span<const float>> ReplayLm::SaidLogits::all(int32_t line) {
  SLIP_TRY(const auto logits_V, inner_->all(line));
  logits_V_.assign(logits_V.begin(), logits_V.end());
  const Likely& said = said_[static_cast<size_t>(line)];
  logits_V_[static_cast<size_t>(said.id.value)] = said.logit;
  return std::span<const float>(logits_V_);
}

/// The inner model's time, and what is said where that is allowed.
Result<std::optional<TokenId>> ReplayLm::SaidLogits::draw(int32_t line, std::span<const uint64_t> bits, double temperature,
                                                          double u) {
  SLIP_TRY(const auto drawn, inner_->draw(line, bits, temperature, u));
  const auto id = static_cast<size_t>(said_[static_cast<size_t>(line)].id.value);
  const bool allowed = bits.empty() || (id / 64 < bits.size() && (bits[id / 64] >> (id % 64) & 1) != 0);
  return allowed ? std::optional(said_[static_cast<size_t>(line)].id) : drawn;
}

TokenId ReplayLm::next_said(int32_t u, bool draft) {
  if (u < 0 || u >= static_cast<int32_t>(recording_.target.size())) return ReplayIds::kNull;
  const auto at = static_cast<size_t>(u);
  if (!draft) return recording_.target[at];
  const uint64_t dice = mix_bits(mix_bits(recording_.seed * 0x9E3779B97F4A7C15u + at) + attempts_[at]++);
  const bool holds = static_cast<double>(dice >> 11) * 0x1p-53 < static_cast<double>(recording_.odds[at]);
  return holds ? recording_.target[at] : recording_.other[at];
}

void ReplayLm::say_recorded(const Pass& pass, bool drafts, PassOutput& out) {
  out.nan_rows = 0;
  said_.begin(out.kept);
  for (const Row& r : pass.rows) drafts |= looks_ahead(pass, r);
  for (size_t i = 0; i < pass.rows.size(); ++i) {
    const Row& r = pass.rows[i];
    if (r.want == Want::kNothing) continue;
    const bool own = !info_.rule.shift && r.input == RowInput{info_.rule.mask};
    const TokenId says = next_said(r.position.t + (own ? 0 : 1) - recording_.first_position, drafts);
    const std::span<const TokenId> allowed = allowed_of(pass, r);
    out.argmax[i] = allowed.empty() || std::binary_search(allowed.begin(), allowed.end(), says) ? says : allowed.front();
    if (out.logits_row[i] >= 0) out.logits_V(i)[static_cast<size_t>(out.argmax[i].value)] = kSure;
    if (const auto line = out.kept_line_of(i)) said_.say(*line, out.argmax[i]);
  }
  if (out.kept) out.kept = &said_;
}

Status ReplayLm::forward(const Pass& pass, PassOutput& out) {
  const auto start = Clock::now();
  ++count_;
  ReplayPass entry{.kind = kind_of(pass), .rows = static_cast<int64_t>(pass.rows.size())};
  SLIP_TRY_(run(pass, entry, out));
  if (stand_in_) {
    SLIP_TRY_(stand_in_->forward(pass, out));
  } else {
    say_recorded(pass, entry.kind == ReplayKind::kDraft, out);
  }
  log_.push_back(entry);
  spent_ms_ += ms_since(start);
  return {};
}

namespace {

/// Pieces, fields and contents, put together by both answers.
struct Maker {
  Form::Parts parts;
  std::vector<std::vector<TokenId>> contents;
  int32_t section = -1, fixed = ReplayIds::kFixed, word = 0;

  void begin(const char* name) {
    parts.section_names.emplace_back(name);
    ++section;
  }
  void run(int32_t tokens) {
    FixedRun r{{}, section};
    for (int32_t i = 0; i < tokens; ++i) r.ids.push_back({ReplayIds::kFixed + fixed++ % 32});
    parts.pieces.emplace_back(std::move(r));
  }
  int32_t field(std::string name, int32_t budget, TokenRules rules, std::vector<TokenId> content, std::vector<int32_t> parents) {
    Field f;
    f.name = std::move(name);
    f.budget = budget;
    if (static_cast<int32_t>(content.size()) < budget) f.end = ReplayIds::kEnd;
    f.rules = std::move(rules);
    f.parents = std::move(parents);
    f.section = section;
    const auto index = static_cast<int32_t>(parts.fields.size());
    parts.pieces.emplace_back(FieldRef{index});
    parts.fields.push_back(std::move(f));
    contents.push_back(std::move(content));
    return index;
  }
  std::vector<TokenId> words(int32_t n) {
    std::vector<TokenId> out;
    out.reserve(static_cast<size_t>(n));
    for (int32_t i = 0; i < n; ++i) out.push_back({ReplayIds::kWords + (word++ * 7) % ReplayIds::kWordCount});
    return out;
  }
  int32_t text(std::string name, int32_t budget, int32_t content, std::vector<int32_t> parents) {
    return field(std::move(name), budget, {}, words(content), std::move(parents));
  }
  /// One of eight words at every place, as a field of few values.
  int32_t choice(std::string name, int32_t budget, std::vector<int32_t> parents) {
    std::vector<TokenId> ids, content;
    for (int32_t i = 0; i < 8; ++i) ids.push_back({ReplayIds::kYes + i});
    for (int32_t i = 0; i < budget; ++i) content.push_back(ids[static_cast<size_t>(word++ % 8)]);
    return field(std::move(name), budget, TokenRules::only(ids), std::move(content), std::move(parents));
  }
  Result<RecordedForm> make(const char* name) {
    parts.name = name;
    SLIP_TRY(Form form, Form::make(std::move(parts)));
    return RecordedForm{std::move(form), std::move(contents)};
  }
};

/// Another id than `target` that the rules allow behind `before`; that itself where there is no other.
TokenId other_than(TokenId target, const TokenRules& rules, std::span<const TokenId> before) {
  if (rules.unrestricted()) return {ReplayIds::kWords + (target.value + 1) % ReplayIds::kWordCount};
  const int32_t state = *rules.state_after(before);
  for (const auto& e : rules.state(state).edges)
    if (e.id != target) return e.id;
  return target;
}

/// Sign, three digits, point, two digits.
TokenRules number_rules() {
  constexpr int32_t kDigit = 80, kSign = 92, kPoint = 95;
  std::vector<TokenRules::State> states(8);
  for (int32_t i = 0; i < 7; ++i) {
    auto& edges = states[static_cast<size_t>(i)].edges;
    if (i == 0) edges = {{{kSign}, 1}, {{kSign + 1}, 1}};
    if (i == 4) edges = {{{kPoint}, 5}};
    for (int32_t d = 0; i != 0 && i != 4 && d < 10; ++d) edges.push_back({{kDigit + d}, i + 1});
    states[static_cast<size_t>(i)].may_end = false;
  }
  return TokenRules(std::move(states));
}
std::vector<TokenId> number_tokens(int32_t salt) {
  const TokenRules rules = number_rules();
  std::vector<TokenId> out;
  for (int32_t i = 0; i < 7; ++i) {
    const auto& edges = rules.state(i).edges;
    out.push_back(edges[static_cast<size_t>(salt * 31 + i * 7) % edges.size()].id);
  }
  return out;
}

void trajectory(Maker& m, const std::vector<int32_t>& parents, int32_t first_run) {
  m.begin("trajectory");
  for (int32_t i = 0; i < 10; ++i) {
    m.run(i == 0 ? first_run : 4 + (i + 1) % 2);
    m.field("trajectory." + std::to_string(i / 2) + "." + std::to_string(i % 2), 7, number_rules(), number_tokens(i), parents);
  }
  m.run(2);
}

}  // namespace

Recording record(const RecordedForm& answer, float odds) {
  const auto length = static_cast<size_t>(answer.form.length());
  Recording out;
  out.target.assign(length, ReplayIds::kNull);
  out.other = out.target;
  out.odds.assign(length, odds);
  for (int32_t u = 0; u < answer.form.length(); ++u)
    if (answer.form.fixed_at(u)) out.target[static_cast<size_t>(u)] = out.other[static_cast<size_t>(u)] = *answer.form.fixed_at(u);
  for (size_t f = 0; f < answer.contents.size(); ++f) {
    const Field& field = answer.form.fields()[f];
    const auto& content = answer.contents[f];
    const auto start = static_cast<size_t>(field.start);
    for (size_t i = 0; i < content.size(); ++i) {
      out.target[start + i] = content[i];
      out.other[start + i] = other_than(content[i], field.rules, std::span(content).first(i));
    }
    if (field.end) {
      out.target[start + content.size()] = *field.end;
      out.other[start + content.size()] = {ReplayIds::kWords};
    }
  }
  return out;
}

Result<RecordedForm> fast_ddrive_answer() {
  Maker m;
  m.begin("critical_objects");
  for (const char* name :
       {"nearby_vehicle", "pedestrian", "cyclist", "construction", "traffic_element", "weather_condition", "road_hazard",
        "emergency_vehicle", "animal", "special_vehicle", "conflicting_vehicle", "door_opening_vehicle"}) {
    m.run(5);
    m.choice(std::string("critical_objects.") + name, 1, {});
  }
  m.begin("explanation");
  m.run(6);
  m.text("explanation", 192, 192, {});
  m.begin("future_meta_behavior");
  m.run(6);
  m.choice("future_meta_behavior.longitudinal", 3, {});
  m.run(5);
  m.choice("future_meta_behavior.lateral", 3, {});
  trajectory(m, {}, 5);
  return m.make("fast-ddrive");
}

Result<RecordedForm> drive_cot_answer() {
  Maker m;
  std::vector<int32_t> conditions, rules, ego;
  m.begin("cot");
  const auto label = [&] { m.run(3); };
  for (const char* name : {"lighting", "road_condition", "weather", "junction", "road_type"}) {
    label();
    conditions.push_back(m.text(name, 8, 4, {}));
  }
  label();
  const int32_t lanes = m.text("lanes", 20, 14, {});
  for (int32_t i = 0; i < 3; ++i) {
    label();
    ego.push_back(m.text("lane_" + std::to_string(i + 1), 12, 8, {lanes}));
  }
  label();
  const int32_t objects = m.text("critical_objects", 32, 22, {});
  std::vector<int32_t> whys;
  for (int32_t i = 0; i < 4; ++i) {
    const std::string object = "object_" + std::to_string(i + 1);
    label();
    const int32_t position = m.text(object + ".position", 10, 7, {objects});
    label();
    const int32_t type = m.text(object + ".type", 6, 3, {objects});
    label();
    whys.push_back(m.text(object + ".justification", 20, 14, {position, type}));
  }
  for (const char* name : {"traffic_light", "traffic_sign", "additional_regulation"}) {
    label();
    rules.push_back(m.text(name, 12, 6, {}));
  }
  label();
  ego.push_back(m.text("traffic_regulation", 32, 22, rules));
  label();
  ego.push_back(m.text("non_interactive", 32, 22, conditions));
  label();
  ego.push_back(m.text("interactive", 32, 22, whys));
  label();
  const int32_t behavior = m.text("ego_behavior", 32, 24, ego);
  m.begin("meta_action");
  label();
  const int32_t longitudinal = m.choice("meta_action.longitudinal", 3, {behavior});
  label();
  const int32_t lateral = m.choice("meta_action.lateral", 3, {behavior});
  trajectory(m, {longitudinal, lateral}, 5);
  return m.make("drive-cot");
}

}  // namespace slip::cli
