// SPDX-License-Identifier: Apache-2.0
// Documents of the C interface: a request, and an engine's options.
#include <cmath>

#include "capi/request_json.h"
#include "fuzz/targets.h"

namespace slip::fuzz {

void run_request(Bytes bytes) {
  const auto request = request_from_json(text_of(bytes), "request");
  if (request) {
    require(std::isfinite(request->sampling.temperature) && std::isfinite(request->sampling.top_p), "numbers are finite");
    require(!request->cancel.cancelled(), "nobody has cancelled it");
  } else {
    require_refusal(request.error());
  }
  const auto options = engine_options_from_json(text_of(bytes), "options");
  if (!options) require_refusal(options.error());
}

std::vector<std::string> seeds_request() {
  std::string history;
  for (int i = 0; i < 16; ++i) history += fmt::format("{}[{},{},0,8.5,0,-0.25,1e-3]", i == 0 ? "" : ",", (i - 15) * 0.25, i * 2);
  return {R"({"ego":{"intent":"GO_LEFT","history":[)" + history + R"(]},"decoder":"scaffold-spec","seed":18446744073709551615})",
          R"({"prompt":"<image>where to?","form":"none","max_tokens":8,"temperature":0.5,"top_k":4,"top_p":0.9,"min_p":0.1})",
          R"({"schema":{"type":"object","properties":{"a":{"enum":["yes","no"]}}},"section_temperatures":{"a":0.5},"rollouts":3})",
          R"({"schedule":"chain","drafter":"lookup:3","verifier":"exact","width":"fixed:8","visibility":"chain","fit":"minjerk"})",
          R"({"trace":true,"log_forced":false,"activation":true,"blank_images":false,"reuse_prompt":true,"deadline_ms":1e3})",
          R"({"repetition_penalty":1.1,"repetition_last":32,"unnorm_key":"bridge","max_rows":64})",
          R"({"dtype":"bf16","kv":"int8","device":"cpu","threads":4,"slots":4096})"};
}

}  // namespace slip::fuzz
