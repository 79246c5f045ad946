// SPDX-License-Identifier: Apache-2.0
// What a dashboard sees, under vLLM's names behind a prefix of ours, so that what people have for vLLM needs another prefix only.
#pragma once

#include <memory>
#include <string>

#include "slipstream/engine.h"

namespace slip::server {

class Metrics {
 public:
  Metrics(const std::string& prefix, const std::string& model);
  ~Metrics();
  void passed(const slipstream::PassShared& pass);
  /// A request has come to its end. `first_field_ms`: from when all of it was there to its first field or text, pictures, form and queue
  /// included; 0 where none was told. `whole_ms`: likewise to its end; 0: as long as the service had it.
  void answered(const slipstream::Answer& answer, const slipstream::Served& served, double first_field_ms,
                const char* finished_reason, double whole_ms = 0);
  void rejected(const char* reason);
  void cancelled(const char* reason);
  /// A request that was admitted, or could not be, has ended without an answer. `kind`: of its error.
  void failed(slipstream::Fate fate, slipstream::ErrorKind kind);
  void superseded();
  /// Prometheus' text, with what the service holds now.
  std::string text(const slipstream::ServiceLoad* load);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slip::server
