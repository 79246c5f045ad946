// SPDX-License-Identifier: Apache-2.0
// Placeholder expansion and three-row positions of chat.h.
#include <algorithm>
#include <cmath>

#include "text/chat.h"

namespace slip {

namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 24;  // of one image or video; positions are 32 bits

Result<int64_t> tokens_of(const VisionGrid& g, const VisionRules& rules, std::string_view what, size_t number) {
  if (g.t < 1 || g.h < rules.merge || g.w < rules.merge || g.h % rules.merge != 0 || g.w % rules.merge != 0) {
    return bad_input("{} {}: expected a patch grid whose sides are multiples of {}, got {} x {} x {}", what, number, rules.merge,
                     g.t, g.h, g.w);
  }
  const int64_t area = int64_t{g.h / rules.merge} * (g.w / rules.merge);
  if (area > kMaxTokens || area * g.t > kMaxTokens) {
    return bad_input("{} {}: expected at most {} tokens, got a grid of {} x {} x {} patches", what, number, kMaxTokens, g.t, g.h,
                     g.w);
  }
  return area * g.t;
}

// Walks ids and hands out the request's images and videos in order.
struct Walk {
  std::span<const VisionGrid> images;
  std::span<const Video> videos;
  const VisionRules& rules;
  size_t image = 0, video = 0;

  struct Item {
    VisionGrid grid;
    float seconds = 0;  // of an image: T stands still
    int64_t tokens = 0;
  };
  bool is_vision(TokenId id) const { return id == rules.image_pad || id == rules.video_pad; }
  Result<Item> next(TokenId id) {
    Item out;
    if (id == rules.image_pad) {
      if (image == images.size()) return bad_input("images: expected one for each placeholder, got {} for more", images.size());
      out.grid = images[image++];
      SLIP_TRY(out.tokens, tokens_of(out.grid, rules, "image", image));
    } else {
      if (video == videos.size()) return bad_input("videos: expected one for each placeholder, got {} for more", videos.size());
      const Video& v = videos[video++];
      if (!(v.seconds_per_grid >= 0 && v.seconds_per_grid <= 1e4)) {
        return bad_input("video {}: seconds_per_grid: expected 0 to 10000, got {}", video, v.seconds_per_grid);
      }
      out.grid = v.grid;
      out.seconds = static_cast<float>(v.seconds_per_grid);
      SLIP_TRY(out.tokens, tokens_of(out.grid, rules, "video", video));
    }
    return out;
  }
  Status finish() const {
    if (image != images.size()) return bad_input("images: expected {} (one for each placeholder), got {}", image, images.size());
    if (video != videos.size()) return bad_input("videos: expected {} (one for each placeholder), got {}", video, videos.size());
    return {};
  }
};

}  // namespace

Result<VisionRules> vision_rules(const Tokenizer& tokenizer) {
  const auto image = tokenizer.find("<|image_pad|>"), video = tokenizer.find("<|video_pad|>");
  if (!image) return unsupported("tokenizer: expected a token <|image_pad|>, got none");
  return VisionRules{.image_pad = *image, .video_pad = video.value_or(TokenId{-1})};
}

Result<std::vector<TokenId>> expand_placeholders(std::span<const TokenId> ids, std::span<const VisionGrid> images,
                                                 std::span<const Video> videos, const VisionRules& rules) {
  std::vector<TokenId> out;
  out.reserve(ids.size());
  Walk walk{images, videos, rules};
  for (const TokenId id : ids) {
    int64_t n = 1;
    if (walk.is_vision(id)) {
      SLIP_TRY(const Walk::Item item, walk.next(id));
      n = item.tokens;
    }
    out.insert(out.end(), static_cast<size_t>(n), id);
  }
  SLIP_TRY_(walk.finish());
  return out;
}

Result<RopePositions> rope_positions(std::span<const TokenId> expanded, std::span<const VisionGrid> images,
                                     std::span<const Video> videos, const VisionRules& rules) {
  RopePositions out;
  out.rows.reserve(expanded.size());
  Walk walk{images, videos, rules};
  const bool whole = rules.videos == VideoPositions::k4 || rules.videos == VideoPositions::k5Whole;
  const bool behind_time = rules.videos == VideoPositions::k4 || rules.videos == VideoPositions::k4Float;
  int64_t s = 0, furthest = -1;
  for (size_t i = 0; i < expanded.size();) {
    if (!walk.is_vision(expanded[i])) {
      furthest = std::max(furthest, s);
      out.rows.push_back(Position::text(static_cast<int32_t>(s++)));
      ++i;
      continue;
    }
    SLIP_TRY(const Walk::Item item, walk.next(expanded[i]));
    const auto run = static_cast<size_t>(item.tokens);
    if (expanded.size() - i < run ||
        std::count(expanded.begin() + static_cast<std::ptrdiff_t>(i), expanded.begin() + static_cast<std::ptrdiff_t>(i + run),
                   expanded[i]) != item.tokens) {
      return bad_input(
          "ids: expected {} placeholders of one image from {} on, got fewer (does a text say <|image_pad|>? <image> marks where "
          "one goes)",
          run, i);
    }
    const int32_t rows = item.grid.h / rules.merge, columns = item.grid.w / rules.merge;
    int64_t last = 0;
    for (int32_t t = 0; t < item.grid.t; ++t) {
      // f32 products in this order, truncated, as torch forms them.
      const float seconds = whole ? std::trunc(item.seconds) : item.seconds;
      const auto time = static_cast<int64_t>(static_cast<float>(t) * seconds * static_cast<float>(rules.tokens_per_second));
      last = time;
      for (int32_t h = 0; h < rows; ++h) {
        for (int32_t w = 0; w < columns; ++w) {
          out.rows.push_back({static_cast<int32_t>(s + time), static_cast<int32_t>(s + h), static_cast<int32_t>(s + w)});
        }
      }
    }
    furthest = std::max(furthest, s + std::max<int64_t>({last, rows - 1, columns - 1}));
    s += behind_time ? std::max<int64_t>({last, rows - 1, columns - 1}) + 1 : std::max(rows, columns);
    if (furthest > INT32_MAX / 2) return bad_input("ids: expected positions below 2^30, got {}", furthest);
    i += run;
  }
  SLIP_TRY_(walk.finish());
  out.rope_delta = static_cast<int32_t>(furthest + 1 - static_cast<int64_t>(expanded.size()));
  return out;
}

}  // namespace slip
