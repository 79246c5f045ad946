// SPDX-License-Identifier: Apache-2.0
// Bodies of /v1/chat/completions and /v1/completions read into requests. What this server does not do is refused by name, never passed over:
// a client that asked for it would take the answer for what it asked.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/images.h"
#include "server/json_read.h"
#include "slipstream/engine.h"

namespace slip::server {

/// What names in a request may stand for: nothing that a client writes ever opens a file.
struct Allowed {
  std::map<std::string, std::string> forms;  // name -> schema document, beside the built-in forms and "model"
  std::set<std::string> builtin;
  ImageLimits images;
  int32_t most_images = 16, most_choices = 64, most_tokens = 4096;
  size_t most_schema_bytes = size_t{256} << 10;
  size_t most_text_bytes = size_t{4} << 20;  // of a text that is split into tokens whatever the model: more takes a worker seconds
};

struct CompletionRequest {
  slipstream::Request request;      // images left out until `images` are decoded
  std::vector<std::string> images;  // bytes
  slipstream::Terms terms;
  std::string model, session;
  int32_t choices = 1;  // greedy ones are copies of one answer
  std::optional<int32_t> max_tokens;
  bool log_probs = false;
  bool brings_schema = false;    // of its own, which may take a second to compile
  bool trajectory_head = false;  // the server's own; the request names it once it is known
  bool names_auto = false;       // "decoder": "auto", which leaves the choice of the request empty, as naming none does
  bool chat = true, stream = false, include_usage = false, include_fields = false, partial = false, batch = false;
};

/// `chat`: of /v1/chat/completions.
std::variant<CompletionRequest, Refusal> read_completion(std::string_view body, bool chat, const Allowed& allowed);
/// Is the request for this model, and does it ask for a trajectory head that is there? `head`: a folder, or none.
std::optional<Refusal> check_names(CompletionRequest& request, const std::string& model, const std::string& head);
/// A request of a file is answered beside all others, whenever there is room: what says when, in which pieces or behind which answer cannot act.
std::optional<Refusal> check_of_file(const CompletionRequest& request);
/// A form has a budget of its own, below which max_tokens may not fall and beyond which it says nothing; `budget` 0: free text, which is bounded.
std::optional<Refusal> check_max_tokens(CompletionRequest& request, int64_t budget, const Allowed& allowed);
/// A picture that cannot be read is the client's mistake, 400; one that there is no memory for may be read later, 503.
Refusal refusal_of_picture(const slipstream::Error& error);
/// The images of a request that is wanted: decoded into it.
std::optional<Refusal> decode_images(CompletionRequest& request, const ImageLimits& limits);
/// One of them; its bytes stay.
std::optional<Refusal> decode_image(CompletionRequest& request, size_t number, const ImageLimits& limits);
/// A request is planned by the trajectory head (a folder, or none) beside the model, where that is `asked`. Empty, or what is wrong.
std::string name_head(const std::string& own, bool asked, slipstream::Request& request);
/// What a request that names no decoder is answered by: the server's own. Who names `auto` has named one.
void take_own_decoder(const slipstream::DecoderChoice& own, bool names_auto, slipstream::Request& request);
/// The drafters, verifiers and draft lengths that may be named from outside: those without files. Empty, or what is wrong.
std::string check_decoder_words(const slipstream::DecoderChoice& choice);

}  // namespace slip::server
