// SPDX-License-Identifier: Apache-2.0
// Many answers with one load: a record set, or a file in the format of OpenAI's batch interface. Answers are written in the order of the
// questions, to a file beside the one that is asked for, which takes its name at the end; a run that was stopped goes on where it was.
#pragma once

#include <string>

#include "slipstream/engine.h"

namespace slip::server {

struct BatchOptions {
  std::string model, out;
  std::string records;           // a set: one line of `run --json` for each, with its number
  std::string batch;             // or requests: {"custom_id", "method", "url", "body"} a line
  int64_t first = 0, count = 0;  // of records; 0: all behind `first`
  int32_t at_once = 16;
  slipstream::Request request;       // what all records have in common
  std::string name;                  // of the model to the requests of a batch; empty: its folder's
  slipstream::EngineOptions engine;  // with the trajectory head of requests that ask for one
};

struct BatchDone {
  int64_t answered = 0, failed = 0;   // by this run; failed: errors that stand where an answer would
  int64_t kept = 0, kept_failed = 0;  // from a run before
  std::string remarks;                // lines of what was asked for otherwise than it was done
};

/// kCancelled leaves what is done in OUT.partial, and what its answers go by in OUT.partial.asked: model, settings, records or requests. A run that
/// asks for something else is refused.
slipstream::Result<BatchDone> run_batch(const BatchOptions& options, const slipstream::Progress& progress,
                                        const slipstream::CancelToken& cancel);

}  // namespace slip::server
