// SPDX-License-Identifier: Apache-2.0
// From command line options to a Request: shared by `run` and `bench decoders`.
#pragma once
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/picture/picture.h"
#include "engine/engine.h"
#include "sim/record.h"

namespace slip::cli {

/// The scene of commands that are given none. Held out: training seeds lie below 100 million.
inline constexpr uint64_t kFirstHeldOutScene = 900'000'000, kHeldOutScene = kFirstHeldOutScene + 17;
/// "avx512", "int8": the words of --json results.
std::string_view word_of(Isa isa);
std::string_view word_of(WeightType type);

/// A request and what it was made from (the record's truth, for pictures).
struct Prepared {
  Request request;
  std::optional<sim::Labels> truth;
  bool simulated_cameras = false;
};
Result<Prepared> prepare(const RunOptions& o);
/// The preset with the overrides of --schedule, --drafter, --verifier, --width. Without a preset the law and the model's abilities choose:
/// fields-spec, scaffold-spec, self-spec, or without a mask token fields, scaffold-ar, ar. Words are checked with or without an engine.
struct MethodFlags {
  std::string_view decoder, schedule, drafter, verifier, width;
  std::optional<Visibility> visibility = {};  // that is decoded by; none: the model's own
};
Result<Method> method_from(const MethodFlags& flags, const Engine* engine, bool form);
Result<Method> method_from(const RunOptions& o, const Engine* engine, bool form);
/// Are the words some decoder's? What they mean for a model is seen when there is one.
Status check_words(const MethodFlags& flags);

/// Loads the model with a progress bar.
Result<std::unique_ptr<Engine>> load_engine(const std::string& model, const std::string& dtype, int threads,
                                            int slots = kDefaultSlots, const std::string& device = "cpu",
                                            const std::string& keys = "auto");
inline constexpr int kMostSlots = 1 << 24;
/// --slots, or what a request needs: its images' tokens, its text at one token a byte, and room for the answers of its rollouts with
/// the slots that their drafter takes (request_slots.cc).
Result<int> slots_for(const RunOptions& o, const Request& request);
/// kDefaultSlots, and what the drafter takes beside an answer in the model's own form: for records, one answer at a time.
int slots_for(const MethodFlags& flags, const std::string& model);
/// The law that the folder was trained for, by its config.json alone; nothing where that cannot be read.
std::optional<Visibility> visibility_of_folder(const std::string& model);

/// The picture of an answer (answer_picture.cc).
PictureInput picture_of(const Prepared& prepared, const Answer& answer);
/// Chrome trace JSON of an answer's stages and rounds; under graph visibility one lane per field (trace.cc).
json::value trace_of(const Answer& answer);

}  // namespace slip::cli
