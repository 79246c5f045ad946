// SPDX-License-Identifier: Apache-2.0
// See requests.h; and what slipstream/request.h makes requests of: ego files, records, scenes.
#include "api/request/requests.h"

#include <algorithm>
#include <charconv>

#include "api/boundary.h"
#include "api/choice.h"
#include "api/pictures.h"
#include "sim/record/make.h"
#include "sim/record/shards.h"
#include "task/prompt.h"
#include "text/tokenizer.h"

namespace slip::api {

namespace {

Result<EgoInput> ego_input(const slipstream::Ego& ego) {
  EgoInput out;
  SLIP_TRY(out.intent, intent_named(ego.intent, "ego"));
  for (size_t i = 0; i < out.history.size(); ++i) {
    const slipstream::EgoState& s = ego.history_4hz[i];
    out.history[i] = {s.t_s, s.x, s.y, s.vx, s.vy, s.ax, s.ay};
  }
  SLIP_TRY_(check_ego(out, "ego"));
  return out;
}

/// Grey in place of a picture: how much the cameras matter.
Image picture_of(Image image, bool blank) {
  if (blank) std::fill(image.rgb.begin(), image.rgb.end(), uint8_t{128});
  return image;
}

Status take_pictures(const slipstream::Request& in, Request& out) {
  for (size_t i = 0; i < in.images.size(); ++i) {
    SLIP_TRY_(in.cancel.check("read", static_cast<int64_t>(i), "images"));
    SLIP_TRY(Image image, rgb_of(in.images[i], fmt::format("image {}", i)));
    out.images.push_back(picture_of(std::move(image), in.blank_images));
  }
  for (size_t v = 0; v < in.videos.size(); ++v) {
    VideoClip& clip = out.videos.emplace_back();
    clip.fps = in.videos[v].fps;
    if (in.videos[v].frames.empty()) return bad_input("video {}: expected frames, got none", v);
    for (size_t i = 0; i < in.videos[v].frames.size(); ++i) {
      SLIP_TRY_(in.cancel.check("read", static_cast<int64_t>(i), "frames"));
      SLIP_TRY(Image frame, rgb_of(in.videos[v].frames[i], fmt::format("video {}, frame {}", v, i)));
      clip.frames.push_back(picture_of(std::move(frame), in.blank_images));
    }
  }
  return {};
}

Result<ChatMessage> message_of(const slipstream::Message& m) {
  ChatMessage out{m.role, {}};
  for (const slipstream::Message::Part& part : m.parts) {
    if (!is_valid_utf8(part.text)) return bad_input("messages: expected valid UTF-8, got other bytes");
    if (part.image)
      out.content.emplace_back(ImageItem{});
    else
      out.content.emplace_back(TextItem{part.text});
  }
  return out;
}

// A text is a conversation of one turn, behind the system's where that is said.
Status take_words(const slipstream::Request& in, Request& out) {
  out.prompt = in.prompt;
  if (!in.system.empty()) out.turns.push_back({"system", in.system});
  if (!in.prompt.empty()) out.turns.push_back({"user", in.prompt});
  out.raw_prompt = in.raw_prompt;
  const bool parts = std::any_of(in.messages.begin(), in.messages.end(), [](const auto& m) { return !m.parts.empty(); });
  for (const slipstream::Message& m : in.messages) {
    if (!parts) {
      out.turns.push_back({m.role, m.text});
      continue;
    }
    SLIP_TRY(out.messages.emplace_back(), message_of(m));
  }
  for (const ChatTurn& turn : out.turns)
    if (!is_valid_utf8(turn.text)) return bad_input("prompt: expected valid UTF-8, got other bytes");
  if (out.prompt.empty() && !out.turns.empty()) out.prompt = out.turns.back().text;  // of models of actions
  return {};
}

bool has_words(const slipstream::Request& in) { return !in.prompt.empty() || !in.messages.empty(); }

// An ego history, a text, or pictures alone; check_question has been there.
Status take_question(const slipstream::Request& in, Request& out) {
  SLIP_TRY_(take_words(in, out));
  if (in.ego) {
    SLIP_TRY(out.ego, ego_input(*in.ego));
  } else if (!has_words(in)) {
    out.ego = standing_ego();  // pictures alone: a car at rest that goes straight on
  }
  return {};
}

Sampling sampling_from(const slipstream::Sampling& s) {
  return {.top_k = s.top_k,
          .top_p = static_cast<float>(s.top_p),
          .min_p = static_cast<float>(s.min_p),
          .repetition = static_cast<float>(s.repetition_penalty),
          .repetition_last = s.repetition_last};
}

}  // namespace

size_t text_bytes_of(const slipstream::Request& r) {
  size_t bytes = r.prompt.size() + r.system.size();
  for (const slipstream::Message& m : r.messages) {
    bytes += m.text.size();
    for (const slipstream::Message::Part& part : m.parts) bytes += part.text.size();
  }
  return bytes;
}

bool asks_something(const slipstream::Request& in) { return in.ego || has_words(in) || !in.images.empty() || !in.videos.empty(); }

Status check_question(const slipstream::Request& in) {
  if (in.ego && has_words(in)) return usage_error("request: expected an ego history or a prompt, got both");
  if (!asks_something(in)) return usage_error("request: expected an ego history, a prompt, images or videos, got none of them");
  if (!in.messages.empty() && (!in.prompt.empty() || !in.system.empty()))
    return usage_error("request: expected messages, or a prompt with what the system says, got both");
  if (!in.system.empty() && in.prompt.empty()) return usage_error("request: system: expected a prompt behind it, got none");
  for (size_t i = 0; i < in.messages.size(); ++i) SLIP_TRY_(check_role(in.messages[i].role, fmt::format("messages[{}]", i)));
  if (!in.ego) return {};
  const auto ego = ego_input(*in.ego);
  return ego ? Status() : Status(ego.error());
}

DecodeOptions decode_options_of(const slipstream::Request& in) {
  DecodeOptions out;
  out.log_probs = in.log_probs;
  out.top_log_probs = in.top_log_probs;
  out.temperature = static_cast<float>(in.sampling.temperature);
  out.sampling = sampling_from(in.sampling);
  out.seed = in.seed;
  out.limit = in.max_tokens;
  out.most_rows = in.max_rows;
  out.activation = in.activation;
  out.log_forced = in.log_forced;
  out.trace = in.trace;
  return out;
}

Result<Request> engine_request(const slipstream::Request& in) {
  SLIP_TRY_(check_question(in));
  Request out;
  SLIP_TRY_(take_pictures(in, out));
  SLIP_TRY_(take_question(in, out));
  out.form = in.form == "none" ? "" : in.form;
  out.form_schema = in.form_schema;
  out.unnorm_key = in.unnorm_key;
  SLIP_TRY(out.visibility, visibility_named(in.visibility));
  SLIP_TRY(out.fit, fit_named(in.fit));
  out.trajectory_head = in.trajectory_head;
  out.fast_plan = in.fast_plan;
  out.rollouts = in.rollouts;
  out.stop = in.stop;
  out.reuse_prompt = in.reuse_prompt;
  for (const auto& [section, temperature] : in.sampling.section_temperatures)
    out.section_temperatures.emplace_back(section, static_cast<float>(temperature));
  out.decode = decode_options_of(in);
  out.context.cancel = in.cancel;
  return out;
}

slipstream::Ego ego_from(const EgoInput& ego) {
  slipstream::Ego out;
  out.intent = words(ego.intent);
  for (size_t i = 0; i < ego.history.size(); ++i) {
    const sim::EgoState& s = ego.history[i];
    out.history_4hz[i] = {s.t_s, s.x, s.y, s.vx, s.vy, s.ax, s.ay};
  }
  return out;
}

namespace {

slipstream::Request request_about(sim::Labels labels, std::span<const uint8_t> pictures) {
  slipstream::Request out;
  out.ego = ego_from(ego_of(labels));
  for (Image& image : camera_images(pictures)) out.images.push_back(shared(std::move(image)));
  out.truth = std::make_shared<const slipstream::RecordTruth>(slipstream::RecordTruth{std::move(labels)});
  return out;
}

// SET:INDEX, the set a folder or one of its shards.
Result<slipstream::Request> from_record(const std::string& text) {
  const size_t colon = text.rfind(':');
  int64_t index = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + (colon == std::string::npos ? text.size() : colon + 1), end, index);
  if (error != std::errc{} || stop != end) return usage_error("--record: expected SET:INDEX, got {}", text);
  SLIP_TRY(const sim::RecordSet set, sim::RecordSet::open(text.substr(0, colon)));
  if (index < 0 || index >= set.size())
    return bad_input("{}: expected a record from 0 to {}, got {}", text.substr(0, colon), set.size() - 1, index);
  SLIP_TRY(sim::Labels labels, set.labels(index));
  SLIP_TRY(const auto pictures, set.pictures(index));
  return request_about(std::move(labels), pictures);
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

namespace api = slip::api;

Result<Ego> read_ego(const std::string& file) {
  return api::bounded([&]() -> Result<Ego> {
    SLIP_TRY(const slip::EgoInput ego, slip::read_ego(file));
    return api::ego_from(ego);
  });
}

Result<Ego> parse_ego(std::string_view json, std::string_view name) {
  return api::bounded([&]() -> Result<Ego> {
    SLIP_TRY(const slip::EgoInput ego, slip::parse_ego_text(json, name));
    return api::ego_from(ego);
  });
}

Result<Request> request_of_record(std::string_view set_and_index) {
  return api::bounded([&] { return api::from_record(std::string(set_and_index)); });
}

Result<int64_t> count_records(const std::string& set) {
  return api::bounded([&]() -> Result<int64_t> {
    SLIP_TRY(const slip::sim::RecordSet opened, slip::sim::RecordSet::open(set));
    return int64_t{opened.size()};
  });
}

Result<Request> request_of_scene(uint64_t seed, double frame_s) {
  return api::bounded([&]() -> Result<Request> {
    SLIP_TRY(slip::sim::Record record, slip::sim::make_frame(seed, {}, frame_s));
    return api::request_about(std::move(record.labels), record.images);
  });
}

}  // namespace slipstream
