// SPDX-License-Identifier: Apache-2.0
// See policy_socket.h. One frame is under way and one waits; a newer frame takes the place of the one that waits, so that a client that asks
// faster than answers come gets them as fast as they come, the newest each time. The session's last answer drafts the next.
#include "server/policy_socket.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/json/shown.h"
#include "server/app.h"
#include "server/completing.h"

namespace slip::server {
namespace {

using Clock = std::chrono::steady_clock;

std::optional<bool> boolean_of(const Packed& p) {
  const auto* b = std::get_if<bool>(&p.value);
  return b ? std::optional(*b) : std::nullopt;
}

std::optional<double> number_of(const Packed& p) {
  if (const auto* n = std::get_if<int64_t>(&p.value)) return static_cast<double>(*n);
  if (const auto* n = std::get_if<uint64_t>(&p.value)) return static_cast<double>(*n);
  if (const auto* x = std::get_if<double>(&p.value)) return *x;
  return std::nullopt;
}

/// As HTTP takes it: those below 0 as what they are modulo 2^64.
std::optional<uint64_t> whole_of(const Packed& p) {
  if (const auto* n = std::get_if<int64_t>(&p.value)) return static_cast<uint64_t>(*n);
  if (const auto* n = std::get_if<uint64_t>(&p.value)) return *n;
  return std::nullopt;
}

/// An element of an array of numbers.
double element(const NdArray& a, int64_t i) {
  const bool wide = a.dtype.ends_with('8') || a.dtype.ends_with("64"), whole = a.dtype.find('i') != std::string::npos;
  const char* at = a.data.data() + i * (wide ? 8 : 4);
  const auto as = [at](auto x) {
    std::memcpy(&x, at, sizeof x);
    return static_cast<double>(x);
  };
  if (whole) return wide ? as(int64_t{}) : as(int32_t{});
  return wide ? as(double{}) : as(float{});
}

Result<slipstream::Image> image_of(const Packed& value, const std::string& name, const ImageLimits& limits) {
  if (const auto* bytes = std::get_if<Bytes>(&value.value)) return image_of_bytes(bytes->data, name, limits);
  SLIP_TRY(const NdArray a, ndarray_of(value, name));
  if (a.dtype.find("u1") == std::string::npos && a.dtype != "uint8")
    return bad_input("{}: expected bytes (u1), got {}", name, shown_json(json::value(a.dtype)));
  const bool planes = a.shape.size() == 3 && a.shape[0] == 3 && a.shape[2] != 3;
  if (a.shape.size() != 3 || (!planes && a.shape[2] != 3))
    return bad_input("{}: expected height x width x 3, got another shape", name);
  const int64_t h = planes ? a.shape[1] : a.shape[0], w = planes ? a.shape[2] : a.shape[1];
  if (h < 1 || w < 1 || h > 16384 || w > 16384 || h * w > limits.most_pixels)
    return bad_input("{}: expected at most {} pixels, got {} x {}", name, limits.most_pixels, w, h);
  auto pixels = std::make_shared<std::string>(a.data);
  if (planes)
    for (int64_t i = 0; i < h * w; ++i)
      for (int64_t c = 0; c < 3; ++c) (*pixels)[static_cast<size_t>(3 * i + c)] = a.data[static_cast<size_t>(c * h * w + i)];
  slipstream::Image out;
  out.pixels = reinterpret_cast<const uint8_t*>(pixels->data());
  out.width = static_cast<int32_t>(w);
  out.height = static_cast<int32_t>(h);
  out.owner = pixels;
  return out;
}

Status read_images(const Packed& value, const std::string& name, const ImageLimits& limits, std::vector<slipstream::Image>& out) {
  constexpr size_t kMostImages = 16;
  const auto each = [&](const Packed& v, const std::string& its) -> Status {
    if (out.size() >= kMostImages) return bad_input("{}: expected at most {} images, got more", its, kMostImages);
    SLIP_TRY(slipstream::Image image, image_of(v, its, limits));
    out.push_back(std::move(image));
    return {};
  };
  if (const auto* list = std::get_if<PackedArray>(&value.value)) {
    for (const Packed& v : *list) SLIP_TRY_(each(v, name));
    return {};
  }
  if (const auto* map = std::get_if<PackedMap>(&value.value); map && !value.find("__ndarray__")) {
    for (const auto& [key, v] : *map) SLIP_TRY_(each(v, key.text() ? shown(*key.text()) : name));
    return {};
  }
  return each(value, name);
}

Status read_ego(const Packed& value, slipstream::Request& request) {
  slipstream::Ego ego;
  if (!std::get_if<PackedMap>(&value.value)) return bad_input("ego: expected a map of intent and history, got another type");
  const Packed* intent = value.find("intent");
  if (!intent || !intent->text()) return bad_input("ego.intent: expected a text, got {}", intent ? "another type" : "none");
  ego.intent = *intent->text();
  const Packed* history = value.find("history");
  if (!history) return bad_input("ego: expected history [16, 7], got none");
  SLIP_TRY(const NdArray a, ndarray_of(*history, "ego.history"));
  if (a.shape != std::vector<int64_t>{16, 7} || a.dtype.find("u1") != std::string::npos || a.dtype == "uint8")
    return bad_input("ego.history: expected numbers [16, 7] (t, x, y, vx, vy, ax, ay), got another array");
  for (int64_t i = 0; i < 16; ++i) {
    const auto at = [&](int64_t k) { return static_cast<float>(element(a, 7 * i + k)); };
    ego.history_4hz[static_cast<size_t>(i)] = {at(0), at(1), at(2), at(3), at(4), at(5), at(6)};
  }
  request.ego = ego;
  return {};
}

/// What a member that the protocol knows has to be; empty: it is not one of them, and is passed over as clients send what they have.
std::string_view type_of(std::string_view name) {
  constexpr std::array<std::string_view, 5> kTexts{"endpoint", "prompt", "decoder", "form", "unnorm_key"};
  if (name == "seed") return "a whole number";
  if (name == "temperature") return "a number from 0 to 100";
  if (name == "deadline_ms") return "a number from 1 to 1e9";
  constexpr std::array<std::string_view, 3> kFlags{"partial", "trajectory_head", "fast_plan"};
  const auto one_of = [name](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
  return one_of(kTexts) ? "a text" : one_of(kFlags) ? "true or false" : "";
}

}  // namespace

Result<Observation> read_observation(std::string_view message, const ImageLimits& limits, Packed& frame_id) {
  SLIP_TRY(const Packed in, unpack(message));
  const auto* map = std::get_if<PackedMap>(&in.value);
  if (!map) return bad_input("observation: expected a map, got another type");
  if (const Packed* id = in.find("frame_id")) frame_id = *id;
  Observation out;
  out.frame_id = frame_id;
  slipstream::Request& r = out.request;
  for (const auto& [key, value] : *map) {
    const std::string name = key.text() ? *key.text() : "";
    const std::string* text = value.text();
    const std::optional<double> number = number_of(value);
    const std::optional<uint64_t> whole = whole_of(value);
    if (name == "endpoint" && text)
      out.endpoint = *text;
    else if (name == "prompt" && text)
      r.prompt = *text;
    else if (name == "decoder" && text)
      r.decoder.preset = (out.names_auto = *text == "auto") ? "" : *text;
    else if (name == "form" && text)
      r.form = *text;
    else if (name == "unnorm_key" && text)
      r.unnorm_key = *text;
    else if (name == "seed" && whole)
      r.seed = *whole;
    else if (name == "temperature" && number && *number >= 0 && *number <= 100)
      r.sampling.temperature = *number;
    else if (name == "deadline_ms" && number && *number >= 1 && *number <= 1e9)
      out.deadline_ms = *number;
    else if (name == "partial" && boolean_of(value))
      out.partial = *boolean_of(value);
    else if (name == "trajectory_head" && boolean_of(value))
      out.trajectory_head = *boolean_of(value);
    else if (name == "fast_plan" && boolean_of(value))
      r.fast_plan = *boolean_of(value);
    else if (name == "ego")
      SLIP_TRY_(read_ego(value, r));
    else if (name.find("image") != std::string::npos)
      SLIP_TRY_(read_images(value, shown(name), limits, r.images));
    else if (const std::string_view wanted = type_of(name); !wanted.empty())
      return bad_input("{}: expected {}, got another value", name, wanted);
  }
  return out;
}

namespace {

std::vector<float> numbers_of(const slipstream::Trajectory& plan) {
  std::vector<float> out;
  for (const slipstream::Point& p : plan.points_4hz.empty() ? plan.waypoints : plan.points_4hz)
    for (const double x : p) out.push_back(static_cast<float>(x));
  return out;
}

PackedMap timing_of(double infer_ms, double prev_total_ms) {
  return {{{std::string("infer_ms")}, {infer_ms}}, {{std::string("prev_total_ms")}, {prev_total_ms}}};
}

}  // namespace

std::string pack_partial(const PlanSoFar& plan, const Packed& frame_id, double infer_ms, double prev_total_ms) {
  const std::vector<float> numbers = numbers_of(plan.trajectory());
  PackedMap out = {{{std::string("actions")}, ndarray_f32(numbers, {static_cast<int64_t>(numbers.size()) / 2, 2})},
                   {{std::string("server_timing")}, {timing_of(infer_ms, prev_total_ms)}},
                   {{std::string("partial")}, {true}},
                   {{std::string("plan_source")}, {plan.source()}}};
  if (!plan.after_section().empty()) out.push_back({{std::string("after_section")}, {plan.after_section()}});
  if (!frame_id.is_null()) out.push_back({{std::string("frame_id")}, frame_id});
  return pack({std::move(out)});
}

std::string pack_actions(const slipstream::Answer& answer, const Packed& frame_id, double infer_ms, double prev_total_ms) {
  std::vector<float> numbers;
  int64_t width = 2;
  if (answer.action) {
    width = static_cast<int64_t>(answer.action->values.size());
    for (const double x : answer.action->values) numbers.push_back(static_cast<float>(x));
  } else {
    numbers = numbers_of(answer.trajectory);
  }
  const int64_t steps = width > 0 ? static_cast<int64_t>(numbers.size()) / width : 0;
  PackedMap fields;
  for (const slipstream::FieldValue& f : answer.fields) fields.push_back({{f.name}, {f.text}});
  PackedMap out = {{{std::string("actions")}, ndarray_f32(numbers, {steps, width})},
                   {{std::string("server_timing")}, {timing_of(infer_ms, prev_total_ms)}},
                   {{std::string("text")}, {answer.text}},
                   {{std::string("fields")}, {std::move(fields)}}};
  if (!answer.plan_source.empty()) out.push_back({{std::string("plan_source")}, {answer.plan_source}});
  if (!frame_id.is_null()) out.push_back({{std::string("frame_id")}, frame_id});
  return pack({std::move(out)});
}

namespace {

class PolicyUser final : public SocketUser, public std::enable_shared_from_this<PolicyUser> {
 public:
  PolicyUser(App& app, std::string key) : app_(app), key_(std::move(key)) {}

  void opened(std::shared_ptr<Socket> socket) override {
    socket_ = std::move(socket);
    const slipstream::ModelInfo& info = app_.service()->info();
    socket_->send(pack({PackedMap{{{std::string("server")}, {std::string("slipstream")}},
                                  {{std::string("model")}, {app_.options().model_name}},
                                  {{std::string("form")}, {info.form}},
                                  {{std::string("fingerprint")}, {app_.service()->fingerprint()}},
                                  {{std::string("rate_hz")}, {int64_t{4}}}}}),
                  true);
  }
  void received(std::string message, bool binary) override {
    if (!binary) return refuse({}, "observation: expected a binary message (msgpack), got text");
    Packed frame_id;
    auto read = read_observation(message, app_.options().allowed.images, frame_id);
    if (!read) return refuse(frame_id, read.error().message);
    if (read->endpoint == "reset") return reset();
    if (!read->endpoint.empty() && read->endpoint != "infer")
      return refuse(read->frame_id, "endpoint: expected infer or reset, got another");
    infer(std::move(*read));
  }
  void closed() override {
    const std::lock_guard lock(mutex_);
    if (running_) running_->cancel.cancel();
    if (std::exchange(next_, nullptr)) app_.metrics().cancelled("hang_up");  // the one that runs is counted when it has ended
  }

 private:
  struct Frame {
    slipstream::Request request;
    CancelToken cancel;
    std::shared_ptr<void> place;  // so that a server that drains waits for it
    Packed id;
    double deadline_ms = 0;  // from its coming
    bool partial = false;
    PlanSoFar plan;  // on the service's thread
    Clock::time_point begun = Clock::now();
    bool superseded = false;
  };

  void reset() {
    {
      const std::lock_guard lock(mutex_);
      previous_.reset();
      if (running_) {
        running_->superseded = true;
        running_->cancel.cancel();  // it is told when it has ended
      }
      running_.reset();
      if (next_) tell_superseded(*next_);
      next_.reset();
    }
    socket_->send("reset successful", false);
  }
  /// openpi's clients take any text for an error. Who numbers his frames is told which one failed.
  void tell_error(const Packed& frame_id, const std::string& message) {
    const std::string why = in_requests_words(message);
    if (frame_id.is_null()) return socket_->send(why, false);
    socket_->send(pack({PackedMap{{{std::string("error")}, {why}}, {{std::string("frame_id")}, frame_id}}}), true);
  }
  void refuse(const Packed& frame_id, const std::string& why) {
    app_.metrics().rejected("bad_request");
    tell_error(frame_id, why);
  }
  void tell_superseded(const Frame& frame) {
    app_.metrics().superseded();
    PackedMap told = {{{std::string("superseded")}, {true}}};
    if (!frame.id.is_null()) told.push_back({{std::string("frame_id")}, frame.id});
    socket_->send(pack({std::move(told)}), true);
  }
  void infer(Observation o) {
    if (app_.draining()) {
      app_.metrics().rejected("draining");
      return socket_->close("server: expected one that takes requests, got one that drains");
    }
    slipstream::Request& r = o.request;
    if (const std::string wrong = check_decoder_words(r.decoder); !wrong.empty()) return refuse(o.frame_id, "decoder: " + wrong);
    const Allowed& allowed = app_.options().allowed;
    if (const auto at = allowed.forms.find(r.form); at != allowed.forms.end())
      r.form_schema = at->second;
    else if (r.form != "model" && r.form != "none" && !allowed.builtin.contains(r.form))
      return refuse(o.frame_id, "form: expected one of GET /v1/forms, got another");
    take_own_decoder(app_.options().decoder, o.names_auto, r);
    if (const std::string wrong = name_head(app_.options().trajectory_head, o.trajectory_head, r); !wrong.empty())
      return refuse(o.frame_id, wrong);
    const auto frame = std::make_shared<Frame>();
    r.cancel = frame->cancel;
    frame->request = std::move(r);
    frame->id = o.frame_id;
    frame->deadline_ms = o.deadline_ms;
    frame->partial = o.partial;
    frame->place = app_.take_place(key_, 0);
    {
      const std::lock_guard lock(mutex_);
      if (running_) {
        if (next_) tell_superseded(*next_);
        next_ = frame;
        return;
      }
      running_ = frame;
    }
    submit(frame);
  }
  void submit(const std::shared_ptr<Frame>& frame) {
    slipstream::Terms terms{.key = key_, .deadline_ms = frame->deadline_ms, .partial = frame->partial};
    if (terms.deadline_ms == 0) terms.deadline_ms = app_.options().default_deadline_ms;
    if (terms.deadline_ms > 0) terms.deadline_ms = std::max(1e-3, terms.deadline_ms - age_ms(*frame));
    {
      const std::lock_guard lock(mutex_);
      frame->request.previous = previous_;
    }
    slipstream::OnEvent on_event;
    if (frame->partial)
      on_event = [frame](const slipstream::Event& e) {
        if (e.kind == slipstream::Event::Kind::kPlan) frame->plan.take(e);
      };
    app_.service()->submit(
        frame->request, terms, std::move(on_event),
        [self = shared_from_this(), frame](slipstream::Result<slipstream::Answer> answer, const slipstream::Served& served) {
          self->done(frame, answer, served);
        });
  }
  void done(const std::shared_ptr<Frame>& frame, slipstream::Result<slipstream::Answer>& answer, const slipstream::Served& served) {
    const std::lock_guard lock(mutex_);
    try {
      tell(*frame, answer, served);
      if (running_ != frame) return;
      running_ = std::exchange(next_, nullptr);
      if (running_) socket_->run([self = shared_from_this(), next = running_] { self->submit(next); });
    } catch (const std::exception&) {  // no memory for an answer, or for the next frame
      running_ = next_ = nullptr;
      socket_->close("no memory");
      throw;
    }
  }
  void tell(const Frame& frame, slipstream::Result<slipstream::Answer>& answer, const slipstream::Served& served) {
    if (frame.superseded) return tell_superseded(frame);
    if (!answer) {
      app_.metrics().failed(served.fate, answer.error().kind);
      if (served.fate == slipstream::Fate::kLate && !frame.plan.empty())
        return socket_->send(pack_partial(frame.plan, frame.id, served.run_ms, prev_total_ms_), true);
      return tell_error(frame.id, app_.outward(answer.error()).message);
    }
    app_.metrics().answered(*answer, served, 0, "stop");
    socket_->send(pack_actions(*answer, frame.id, served.run_ms, prev_total_ms_), true);
    prev_total_ms_ = age_ms(frame);
    previous_ = std::make_shared<const slipstream::Answer>(std::move(*answer));
  }
  static double age_ms(const Frame& frame) { return std::chrono::duration<double, std::milli>(Clock::now() - frame.begun).count(); }

  App& app_;
  const std::string key_;
  std::shared_ptr<Socket> socket_;
  std::mutex mutex_;
  std::shared_ptr<Frame> running_, next_;
  std::shared_ptr<const slipstream::Answer> previous_;
  double prev_total_ms_ = 0;
};

}  // namespace

std::shared_ptr<SocketUser> make_policy_user(App& app, std::string key) {
  return std::make_shared<PolicyUser>(app, std::move(key));
}

}  // namespace slip::server
