// SPDX-License-Identifier: Apache-2.0
// What a client of the server sends: bodies of completions, observations of the websocket, URLs of images.
#include <cmath>

#include "base/json.h"
#include "fuzz/targets.h"
#include "server/msgpack.h"
#include "server/openai_reply.h"
#include "server/openai_request.h"
#include "server/policy_socket.h"

namespace slip::fuzz {

namespace {

void require_words(const server::Refusal& r) {
  require(r.status >= 400 && r.status < 500, "a refusal is the client's fault");
  require(!r.message.empty() && r.message.find('\n') == std::string::npos, "a refusal has words, on one line");
}

}  // namespace

void run_completion(Bytes bytes) {
  server::Allowed allowed;
  allowed.builtin = {"drive-cot"};
  for (const bool chat : {true, false}) {
    auto read = server::read_completion(text_of(bytes), chat, allowed);
    if (const auto* no = std::get_if<server::Refusal>(&read)) {
      require_words(*no);
      continue;
    }
    const auto& c = std::get<server::CompletionRequest>(read);
    require(std::isfinite(c.request.sampling.temperature) && c.choices >= 1 && c.request.rollouts >= 1,
            "numbers are in their ranges");
    require(c.request.form_schema.size() <= allowed.most_schema_bytes + 1024 || !c.request.form_schema.empty(),
            "schemas are bounded");
    require(c.request.form == "none" || c.request.form == "model" || c.request.form == "drive-cot", "no name opens a file");
    require(server::check_decoder_words(c.request.decoder).empty(), "no decoder opens a file");
  }
}

std::vector<std::string> seeds_completion() {
  return {
      R"({"messages":[{"role":"system","content":"short"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},{"type":"text","text":"what?"}]}],"temperature":0.5,"seed":-3,"n":2,"stream":true,"stream_options":{"include_usage":true,"include_fields":true}})",
      R"({"messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"drive-cot","strict":true}},"prediction":{"type":"content","content":"{}"}})",
      R"({"messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema","schema":{"type":"object"}},"slipstream":{"deadline_ms":400,"decoder":"ar","session":"s","partial":true,"width":"fixed:4"}})",
      R"({"prompt":"go on","max_tokens":4,"top_p":0.9,"top_k":5,"min_p":0.1,"repetition_penalty":1.1})"};
}

void run_observation(Bytes bytes) {
  const auto value = server::unpack(text_of(bytes));
  if (value) {
    const std::string packed = server::pack(*value);
    const auto again = server::unpack(packed);
    require(again.has_value() && server::pack(*again) == packed, "what is written is read again");
  } else {
    require_refusal(value.error());
  }
  server::Packed frame_id;
  const auto observation = server::read_observation(text_of(bytes), {}, frame_id);
  if (!observation) require_refusal(observation.error());
}

std::vector<std::string> seeds_observation() {
  using server::Packed;
  using server::PackedMap;
  const auto text = [](const char* s) { return Packed{std::string(s)}; };
  const Packed history = server::ndarray_f32(std::vector<float>(112, 0.5F), {16, 7});
  const Packed pixels{PackedMap{{{server::Bytes{"__ndarray__"}}, {true}},
                                {{server::Bytes{"data"}}, {server::Bytes{std::string(12, 'x')}}},
                                {{server::Bytes{"dtype"}}, text("|u1")},
                                {{server::Bytes{"shape"}}, {server::PackedArray{{int64_t{2}}, {int64_t{2}}, {int64_t{3}}}}}}};
  return {server::pack({PackedMap{{text("image"), pixels},
                                  {text("ego"), {PackedMap{{text("intent"), text("GO_LEFT")}, {text("history"), history}}}},
                                  {text("frame_id"), {int64_t{7}}},
                                  {text("deadline_ms"), {400.0}}}}),
          server::pack({PackedMap{{text("endpoint"), text("reset")}}}),
          server::pack(
              {PackedMap{{text("images"), {server::PackedArray{pixels, pixels}}}, {text("prompt"), text("pick up the cup")}}})};
}

void run_image_url(Bytes bytes) {
  const auto raw = server::bytes_of_url(text_of(bytes), {});
  if (!raw) return require_refusal(raw.error());
  require(server::from_base64(server::to_base64(*raw)).value() == *raw, "base64 goes there and back");
  const auto sides = server::size_in_header(*raw);
  if (!sides) require_refusal(sides.error());
}

std::vector<std::string> seeds_image_url() {
  return {
      "data:image/png;base64," +
          server::to_base64(std::string("\x89PNG\r\n\x1A\n\0\0\0\rIHDR\0\0\0\x40\0\0\0\x40\x08\x02\0\0\0", 29)),
      "data:image/jpeg;base64," + server::to_base64(std::string("\xFF\xD8\xFF\xE0\0\x04zz\xFF\xC0\0\x11\x08\0\x40\0\x40\x03", 20)),
      "data:image/webp;base64," +
          server::to_base64(std::string("RIFF\x20\0\0\0WEBPVP8L\x10\0\0\0\x2F\x3F\xC0\x0F\0aaaaaaaaaaaa", 37)),
      "data:image/x-portable-pixmap;base64," + server::to_base64("P6\n# c\n64 64\n255\n"),
      "file:///etc/passwd",
      "http://example.com/a.png"};
}

/// What a model writes may be any bytes; a client splits the stream at blank lines, whatever stands in it.
void run_event(Bytes bytes) {
  const std::string text(text_of(bytes));
  const server::ReplyHead head{.id = "chatcmpl-0", .model = text.substr(0, 40), .fingerprint = "slip-0"};
  const slipstream::FieldValue value{text.substr(0, 20), json::serialize(json::value(text)), text};
  slipstream::Event told;
  told.kind = slipstream::Event::Kind::kField;
  told.field = &value;
  const slipstream::Trajectory plan{.waypoints = {{1.5, -0.25}}};
  slipstream::Event planned;
  planned.kind = slipstream::Event::Kind::kPlan;
  planned.plan = &plan;
  planned.plan_source = "head";
  planned.after_section = text;
  server::PlanSoFar so_far;
  so_far.take(planned);
  for (const std::string& sent : {server::event(server::chunk(head, {server::text_choice(head, 0, text, true)})),
                                  server::event(server::event_chunk(head, told)), server::event(server::event_chunk(head, planned)),
                                  server::event(server::partial_part({{"a", text}}, so_far, {}))}) {
    require(sent.starts_with("data: ") && sent.ends_with("\n\n"), "an event is a line of data and a blank one");
    const std::string_view line = std::string_view(sent).substr(6, sent.size() - 8);
    require(line.find_first_of("\r\n") == std::string_view::npos, "no line breaks within");
    require(slipstream::to_valid_utf8(line) == line, "valid UTF-8");
    require(parse_json(line, "event").has_value(), "valid JSON");
  }
}

std::vector<std::string> seeds_event() {
  return {"go on", "two\nlines\r\n\ndata: [DONE]\n\n", std::string("\xF0\x9F\x9A\x97 \xC3", 6), "{\"a\":1.5}", "\"\\u0000\"",
          "1e999"};
}

}  // namespace slip::fuzz
