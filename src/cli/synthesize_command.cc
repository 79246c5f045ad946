// SPDX-License-Identifier: Apache-2.0
// `synthesize`: a random-weight model folder of a real shape.
#include "convert/synthesize.h"

#include <chrono>

#include "base/progress.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace slip::cli {

Status synthesize(const SynthesizeCommand& o) {
  SynthesizeOptions options{.like = o.like, .dtype = o.dtype, .seed = o.seed, .layers = o.layers, .tiny = o.tiny};
  options.tokenizer.assign(o.tokenizer.begin(), o.tokenizer.end());
  ThreadPool pool(thread_count(o.threads));
  std::optional<Progress> bar;
  const auto start = std::chrono::steady_clock::now();
  SLIP_TRY(const Synthesized made, slip::synthesize(options, o.out, pool, [&](int64_t done, int64_t total) {
             if (!bar) bar.emplace("synthesizing", total >> 20);
             bar->update(done >> 20, "MB");
           }));
  if (bar) bar->finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (o.json) {
    print_json(
        {{"out", o.out}, {"parameters", made.parameters}, {"tensors", made.tensors}, {"bytes", made.bytes}, {"seconds", seconds}});
  } else {
    print_text(fmt::format("{}: {} tensors, {:.3f} billion parameters, {} MB in {:.1f} s\n", o.out, made.tensors,
                           static_cast<double>(made.parameters) * 1e-9, made.bytes >> 20, seconds));
  }
  return {};
}

}  // namespace slip::cli
