// SPDX-License-Identifier: Apache-2.0
// Who answers the questions of `bench serve`: a service in this process, or a server over sockets.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench/commands.h"
#include "slipstream/engine.h"

namespace slip::cli {

class Asker {
 public:
  virtual ~Asker() = default;
  struct Told {
    std::function<void()> first;                              // a field or text: the first one counts
    std::function<void()> plan;                               // the plan is complete
    std::function<void(bool answered, int64_t tokens)> done;  // once
  };
  /// Returns at once or soon. `decoder`: a preset or "auto"; `number` chooses the scene and seeds the draws.
  virtual void ask(const std::string& decoder, uint64_t number, const CancelToken& cancel, Told told) = 0;
  virtual void on_pass(std::function<void(const slipstream::PassShared&)> told) = 0;
  /// The model's visibility: "graph" or "chain".
  virtual std::string visibility() const = 0;
  virtual Status check(const std::string& decoder) const = 0;
};

Result<std::unique_ptr<Asker>> ask_here(const BenchServeOptions& o, const slipstream::Progress& progress,
                                        const CancelToken& cancel);
/// Every question on a connection of its own, kept for the next one; answers are streamed. kUsage and kResource as HttpClient.
Result<std::unique_ptr<Asker>> ask_server(const BenchServeOptions& o, const CancelToken& cancel);

}  // namespace slip::cli
