// SPDX-License-Identifier: Apache-2.0
// `convert`: a native Prismatic checkpoint as a Hugging Face folder.
#include "cli/commands.h"
#include "cli/output.h"
#include "convert/prismatic.h"

namespace slip::cli {

Status convert(const ConvertCommand& o) {
  SLIP_TRY(const Converted done, convert_prismatic({o.source, o.tokenizer}, o.out));
  if (o.json) {
    print_json({{"checkpoint", done.checkpoint.string()},
                {"out", o.out},
                {"tensors", done.tensors},
                {"bytes", done.bytes},
                {"left_out", done.left_out},
                {"notes", json::value_from(done.notes)}});
    return {};
  }
  print_text(fmt::format("{}: {} tensors, {} MB, {} left out\n", o.out, done.tensors, done.bytes >> 20, done.left_out));
  for (const std::string& note : done.notes) print_text(note + "\n");
  return {};
}

}  // namespace slip::cli
