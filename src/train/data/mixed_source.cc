// SPDX-License-Identifier: Apache-2.0
#include "train/data/mixed_source.h"

namespace slip {

namespace {

constexpr int64_t kLargestShare = 1000;
constexpr size_t kMostParts = 64;

struct Part {
  int64_t share;
  std::unique_ptr<SampleSource> source;
};

class MixedSource : public SampleSource {
 public:
  explicit MixedSource(std::vector<Part> parts) : parts_(std::move(parts)) {
    for (const Part& p : parts_) cycle_ += p.share;
  }

  Result<Sample> get(int64_t index) override {
    const int64_t whole_cycles = index / cycle_;
    int64_t within = index % cycle_;
    auto part = parts_.begin();
    for (; within >= part->share; ++part) within -= part->share;
    return part->source->get(whole_cycles * part->share + within);
  }

 private:
  std::vector<Part> parts_;
  int64_t cycle_ = 0;
};

Result<Part> make_part(const json::value& described, size_t at, const std::string& tokenizer_folder) {
  const std::string where = fmt::format("data: parts: {}", at);
  if (!described.is_object()) return bad_input("{}: expected an object, got another type", where);
  json::object own = described.get_object();
  SLIP_TRY(const int64_t share, int_or(own, "share", 1, where));
  if (share < 1 || share > kLargestShare) return bad_input("{}: share: expected 1 to {}, got {}", where, kLargestShare, share);
  own.erase("share");
  if (const json::value* kind = own.if_contains("kind"); kind && *kind == "mixed")
    return bad_input("{}: kind: expected a source of its own, got mixed", where);
  auto source = make_source(own, tokenizer_folder);
  if (!source) {
    std::string_view message = source.error().message;
    if (message.starts_with("data: ")) message.remove_prefix(6);  // of the part, whose place is told
    return Error{source.error().kind, fmt::format("{}: {}", where, message)};
  }
  return Part{share, std::move(*source)};
}

}  // namespace

Result<std::unique_ptr<SampleSource>> make_mixed_source(const json::object& data, const std::string& tokenizer_folder) {
  const json::value* parts = data.if_contains("parts");
  if (!parts || !parts->is_array() || parts->get_array().empty() || parts->get_array().size() > kMostParts)
    return bad_input("data: parts: expected a list of 1 to {} objects", kMostParts);
  std::vector<Part> made;
  for (size_t i = 0; i < parts->get_array().size(); ++i) {
    SLIP_TRY(Part part, make_part(parts->get_array()[i], i, tokenizer_folder));
    made.push_back(std::move(part));
  }
  return std::unique_ptr<SampleSource>(std::make_unique<MixedSource>(std::move(made)));
}

}  // namespace slip
