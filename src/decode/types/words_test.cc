// SPDX-License-Identifier: Apache-2.0
// Presets and parts are spelled in one table each; what is read from a word is written as it.
#include "decode/types/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decode/types/presets.h"

namespace slip {
namespace {

using testing::HasSubstr;

constexpr Part kParts[] = {Part::kSchedule, Part::kDrafter, Part::kVerifier, Part::kDraftLength};

/// A usage with something in every place of it: "lookup[:N]" -> "lookup:7".
std::string example(std::string_view usage) {
  const std::string head(usage.substr(0, usage.find_first_of(":[")));
  if (head == "diffusion") return "diffusion:lora";
  if (head == "ensemble" || head == "confidence") return head + ":0.25";
  if (usage.find(":N") != usage.npos || usage.find(":R") != usage.npos) return head + ":7";
  return head.size() == usage.size() ? head : head + ":some name";
}

std::string reread(Part part, std::string_view text) {
  const auto written = [](const auto& read) { return read ? std::string(word_of(*read)) : read.error().message; };
  switch (part) {
    case Part::kSchedule:
      return written(read_schedule(text));
    case Part::kDrafter:
      return written(read_drafter(text));
    case Part::kVerifier:
      return written(read_verifier(text));
    case Part::kDraftLength:
      break;
  }
  return written(read_draft_length(text));
}

TEST(Words, AreWrittenAsTheyAreRead) {
  int words = 0;
  for (const Part part : kParts)
    for (const PartWord& w : part_words(part)) {
      const std::string text = example(w.usage);
      const bool short_form = text.starts_with("lookup") || text.starts_with("measured");  // results leave the number or file out
      EXPECT_EQ(reread(part, text), short_form ? text.substr(0, text.find(':')) : text);
      EXPECT_FALSE(w.help.empty()) << w.usage;
      ++words;
    }
  EXPECT_EQ(words, 22);
  EXPECT_EQ(reread(Part::kVerifier, "relaxed:0.5u"), "relaxed:0.5u");
  EXPECT_EQ(reread(Part::kDrafter, "diffusion:ahead"), "diffusion:ahead");
}

TEST(Words, NameWhatIsWrong) {
  EXPECT_EQ(reread(Part::kSchedule, "graph"), "--schedule: expected text, chain, sections or fields, got graph");
  EXPECT_THAT(reread(Part::kDrafter, "oracle"), HasSubstr("previous:FILE, model:DIR, coupled:DIR or dflash[:DIR], got oracle"));
  EXPECT_EQ(reread(Part::kDrafter, "none:x"), "--drafter: expected none without more, got none:x");
  EXPECT_EQ(reread(Part::kDrafter, "diffusion:x"),
            "--drafter: expected diffusion, diffusion:lora or diffusion:ahead, got diffusion:x");
  EXPECT_EQ(reread(Part::kDrafter, "model"), "--drafter: expected model:DIR, got no DIR");
  EXPECT_EQ(reread(Part::kDrafter, "lookup:0"), "--drafter: expected lookup:X with X from 1 to 64, got lookup:0");
  EXPECT_EQ(reread(Part::kVerifier, "relaxed:1.5"),
            "--verifier: expected relaxed:N with a whole number N from 0 to 65536, got relaxed:1.5");
  EXPECT_EQ(reread(Part::kDraftLength, "fixed"), "--width: expected fixed:X with X from 1 to 1024, got fixed");
  EXPECT_EQ(reread(Part::kDraftLength, "blockpilot:"), "--width: expected blockpilot:FILE, got no FILE");
}

TEST(Presets, AreWhatTheirRowsSay) {
  for (const Preset& p : kPresets) {
    const auto m = method_of(p.name);
    ASSERT_TRUE(m) << m.error().message;
    const MethodWords w = words_of(*m);
    EXPECT_EQ(m->preset, p.name);
    EXPECT_EQ(w.schedule, p.schedule);
    EXPECT_EQ(w.drafter, p.drafter) << p.name;
    EXPECT_EQ(w.verifier.substr(0, w.verifier.find(':')), p.verifier);
    EXPECT_EQ(w.draft_length, p.draft_length.empty() ? "1" : p.draft_length);
    EXPECT_EQ(m->lossy(), p.lossy);
    EXPECT_TRUE(with_parts(*m, p.schedule, "", "", p.draft_length)) << p.name;
    EXPECT_FALSE(p.help.empty());
  }
}

}  // namespace
}  // namespace slip
