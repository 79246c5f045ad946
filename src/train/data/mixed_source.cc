// SPDX-License-Identifier: Apache-2.0
#include "train/data/mixed_source.h"

#include <algorithm>

#include "train/data/known_keys.h"

namespace slip {

namespace {

constexpr int64_t kLargestShare = 1000;
constexpr size_t kMostParts = 64;

struct Part {
  int64_t share;
  std::unique_ptr<SampleSource> source;
  std::vector<int32_t> sections = {};  // of the part's sections: their places among all parts'
};

/// Where `name` stands in `all`, behind which it is put if it is new.
int32_t place_of(const std::string& name, std::vector<std::string>& all) {
  const auto at = std::find(all.begin(), all.end(), name);
  const auto place = static_cast<int32_t>(at - all.begin());
  if (at == all.end()) all.push_back(name);
  return place;
}

class MixedSource : public SampleSource {
 public:
  explicit MixedSource(std::vector<Part> parts) : parts_(std::move(parts)) {
    for (Part& p : parts_) {
      order_.push_back(p.source->parts().front());
      order_.back().share = p.share;
      const Outline own = p.source->outline();
      for (const std::string& name : own.sections) p.sections.push_back(place_of(name, outline_.sections));
      for (const std::string& name : own.fields) place_of(name, outline_.fields);
    }
  }
  Outline outline() const override { return outline_; }

  std::vector<SamplePart> parts() const override { return order_; }

  Result<Sample> get(int64_t index) override {
    const PlaceInPart place = place_of(order_, index);
    const Part& part = parts_[place.part];
    SLIP_TRY(Sample s, part.source->get(place.index));
    for (int32_t& section : s.section)
      if (section >= 0) section = part.sections[static_cast<size_t>(section)];
    return s;
  }

 private:
  std::vector<Part> parts_;
  std::vector<SamplePart> order_;
  Outline outline_;  // of all parts; what several have is one
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
  SLIP_TRY_(only_keys(data, {"kind", "parts", "model"}, "data"));
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
