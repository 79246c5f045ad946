// SPDX-License-Identifier: Apache-2.0
// Earlier answers that a request brings: as a document (previous_answer), as an answer in memory (previous), or as a text (prediction).
#pragma once
#include "base/result.h"
#include "engine/engine.h"
#include "slipstream/request.h"

namespace slip::api {

/// May `previous` or `prediction` draft here? Neither beside an earlier answer's document, nor where the decoder names a drafter.
bool may_draft_earlier(const slipstream::Request& asked);

/// The decoder with such an earlier answer as its drafter; kUsage or kUnsupported where it has no use for one.
Result<Method> with_earlier(const Method& method);

/// Puts the earlier answer into `request`, whose method is known, for both doors alike. A document has to be an answer in `form` (null: free
/// text). What `previous` and `prediction` say drafts where it is one, and is passed over where it is none.
Status take_earlier(const slipstream::Request& asked, Engine& engine, const CompiledForm* form, Request& request);

}  // namespace slip::api
