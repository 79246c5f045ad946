// SPDX-License-Identifier: Apache-2.0
// What closed loops and evaluations read back: costs of latency, lines of records and of drives.
#include "base/json.h"
#include "drive/latency.h"
#include "drive/study.h"
#include "eval/measures.h"
#include "fuzz/targets.h"

namespace slip::fuzz {

void run_latency(Bytes bytes) {
  put("latency.json", text_of(bytes));
  const auto file = drive::read_latency(scratch() / "latency.json");
  if (!file) return require_refusal(file.error());
  require(static_cast<bool>(drive::write_latency(*file, scratch() / "again.json")), "what was read can be written");
  const auto again = drive::read_latency(scratch() / "again.json");
  require(again && again->decoders.size() == file->decoders.size(), "and read again");
}

std::vector<std::string> seeds_latency() {
  return {R"({"version":1,"model":"m","machine":"a","note":"","decoders":{"ar":{"encode_ms":1,"row_ms":0.5,"pass_ms":2,)"
          R"("decode_row_ms":0.25,"plan_ms":0},"*":{"encode_ms":3,"row_ms":0,"pass_ms":0,"decode_row_ms":0,"plan_ms":1}}})"};
}

void run_lines(Bytes bytes) {
  const auto v = parse_json(text_of(bytes), "line");
  if (!v) return require_refusal(v.error());
  if (!v->is_object()) return;
  const std::vector<drive::Entrant> entrants{{"expert", "", drive::Mode::kSync, {}}};
  if (const auto d = drive::drove_from(v->get_object(), entrants, "line"); !d) require_refusal(d.error());
  const auto m = measures_from(v->get_object(), "line");
  if (!m) return require_refusal(m.error());
  const auto again = measures_from(m->to_json(), "line");
  require(again && again->numbers.size() == m->numbers.size(), "a line that was read can be written and read again");
}

std::vector<std::string> seeds_lines() {
  RecordMeasures m;
  m.decoder = "ar";
  m.seed = 7;
  m.family = "curve";
  m.objects[2] = RecordMeasures::YesNo{true, false};
  m.texts = {{"lighting", true, "day"}};
  m.set("ade_5s", 1.5);
  drive::Drove d;
  return {json::serialize(m.to_json()), json::serialize(drive::to_json(d, {"expert", "", drive::Mode::kSync, {}}))};
}

}  // namespace slip::fuzz
