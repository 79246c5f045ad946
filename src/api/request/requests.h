// SPDX-License-Identifier: Apache-2.0
// A caller's Request as the engine takes it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/engine.h"
#include "sim/record.h"
#include "slipstream/request.h"

namespace slipstream {

struct [[gnu::visibility("hidden")]] RecordTruth {
  slip::sim::Labels labels;
};

}  // namespace slipstream

namespace slip::api {

/// The scene of commands that are given none. Held out: training seeds lie below 100 million.
inline constexpr uint64_t kFirstHeldOutScene = 900'000'000, kHeldOutScene = kFirstHeldOutScene + 17;

inline bool is_free_text(const slipstream::Request& r) { return r.form_schema.empty() && r.form == "none"; }

/// Bytes of all texts that the prompt is made of: parts of messages as well as messages that are one text.
size_t text_bytes_of(const slipstream::Request& request);

/// Is anything asked yet: an ego history, a text, or pictures?
bool asks_something(const slipstream::Request& request);
/// What is asked, and whether it goes together; pictures are not looked at. kUsage, kBadInput.
Status check_question(const slipstream::Request& request);

/// The roles of a conversation's turns, whoever wrote it: a document or a program (messages.cc). `where` opens the message.
Status check_role(std::string_view role, std::string_view where);

DecodeOptions decode_options_of(const slipstream::Request& request);

/// All but the method, which needs the model. Pictures are copied, grey ones where they are to be blank.
Result<Request> engine_request(const slipstream::Request& request);

slipstream::Ego ego_from(const EgoInput& ego);

}  // namespace slip::api
