// SPDX-License-Identifier: Apache-2.0
// The words by which a decoder's parts are named on the command line, in results and in presets. One table per part (words.cc): a row is
// a word with its way of reading, of writing and its line of help, so that a new word is added in one place.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/types/method.h"

namespace slip {

enum class Part : uint8_t { kSchedule, kDrafter, kVerifier, kDraftLength };

struct PartWord {
  std::string_view usage;  // "lookup[:N]"
  std::string_view help;
};
/// The words of an option, in the order of its help.
std::vector<PartWord> part_words(Part part);
/// Their usages, "text, chain, sections, fields".
std::string part_usage(Part part);
/// The presets' names, "ar, self-spec, ...".
std::string preset_usage();
/// `auto` and the exact presets that need nothing beside the model; with a visibility, `ar` and those of its schedule.
std::vector<std::string> presets_of_model_alone(std::optional<Visibility> visibility = {});

/// Read a word with what stands behind its colon. kUsage, headed by the option's name, for one that is none.
Result<Schedule> read_schedule(std::string_view text);
Result<DrafterSpec> read_drafter(std::string_view text);
Result<VerifierSpec> read_verifier(std::string_view text);
Result<DraftLengthSpec> read_draft_length(std::string_view text);

/// The words alone, as presets have them, whose folders and files are still to be named. The text must be a word of the table.
DrafterSpec drafter_named(std::string_view word);
VerifierSpec verifier_named(std::string_view word);

std::string_view word_of(Schedule schedule);
std::string word_of(const DrafterSpec& drafter);
std::string word_of(const VerifierSpec& verifier);
std::string word_of(const DraftLengthSpec& draft_length);

}  // namespace slip
