// SPDX-License-Identifier: Apache-2.0
// slipstream::synthesize and convert_prismatic: model folders of random weights, and of a native Prismatic checkpoint.
#include "api/boundary.h"
#include "api/tools/reports.h"
#include "base/measure.h"
#include "convert/prismatic.h"
#include "convert/synthesize.h"
#include "slipstream/model.h"

namespace slip::api {

namespace {

Result<slipstream::Report> synthesize(const std::string& out, const slipstream::SynthesizeOptions& o,
                                      const slipstream::Progress& progress, const slipstream::CancelToken& cancel) {
  SynthesizeOptions options{.like = o.like, .dtype = o.dtype, .seed = o.seed, .layers = o.layers, .tiny = o.tiny, .cancel = cancel};
  options.tokenizer.assign(o.tokenizer.begin(), o.tokenizer.end());
  ThreadPool pool(o.threads > 0 ? o.threads : usable_threads());
  const auto start = Clock::now();
  SLIP_TRY(const Synthesized made, slip::synthesize(options, out, pool, [&](int64_t done, int64_t total) {
             if (progress) progress("synthesizing", done, total);
           }));
  const double seconds = ms_since(start) / 1000;
  return report_of(
      json::object{
          {"out", out}, {"parameters", made.parameters}, {"tensors", made.tensors}, {"bytes", made.bytes}, {"seconds", seconds}},
      fmt::format("{}: {} tensors, {:.3f} billion parameters, {} MB in {:.1f} s\n", out, made.tensors,
                  static_cast<double>(made.parameters) * 1e-9, made.bytes >> 20, seconds));
}

Result<slipstream::Report> convert(const std::string& checkpoint, const std::string& tokenizer, const std::string& out,
                                   const slipstream::Progress& progress, const slipstream::CancelToken& cancel) {
  const auto tell = [&](int64_t bytes, int64_t total) {
    if (progress) progress("converting", bytes, total);
  };
  SLIP_TRY(const Converted done, slip::convert_prismatic({checkpoint, tokenizer}, out, tell, cancel));
  std::string text = fmt::format("{}: {} tensors, {} MB, {} left out\n", out, done.tensors, done.bytes >> 20, done.left_out);
  for (const std::string& note : done.notes) text += note + "\n";
  return report_of(json::object{{"checkpoint", done.checkpoint.string()},
                                {"out", out},
                                {"tensors", done.tensors},
                                {"bytes", done.bytes},
                                {"left_out", done.left_out},
                                {"notes", json::value_from(done.notes)}},
                   std::move(text));
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

namespace api = slip::api;

std::vector<std::string> synthetic_shapes() { return slip::synthetic_shapes(); }

Result<Report> synthesize(const std::string& out, const SynthesizeOptions& options, const Progress& progress,
                          const CancelToken& cancel) {
  return api::bounded([&] { return api::synthesize(out, options, progress, cancel); });
}

Result<Report> convert_prismatic(const std::string& checkpoint, const std::string& tokenizer, const std::string& out,
                                 const Progress& progress, const CancelToken& cancel) {
  return api::bounded([&] { return api::convert(checkpoint, tokenizer, out, progress, cancel); });
}

}  // namespace slipstream
