// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_vision.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace slip::cuda {
namespace {

constexpr int kHeadStep = 32;               // numbers of a head come in so many at a time
constexpr int64_t kMostPartials = 1 << 17;  // of a piece of attention: 800 MB of sums for 16 heads of 80

template <class T>
T* as(const Memory& m) {
  return m.data<T>();
}

/// Memory of at least so many bytes; what was in it may be lost.
Status grow(Device& device, Memory& m, size_t bytes) {
  if (bytes <= m.bytes()) return {};
  m = {};
  SLIP_TRY(m, device.allocate(bytes, "the vision tower's activations"));
  return {};
}

/// The same, page-locked and the host's: copies to and from other memory take several times as long.
Status grow_host(Device& device, Memory& m, size_t bytes) {
  if (bytes <= m.bytes()) return {};
  m = {};
  SLIP_TRY(m, device.allocate_host(bytes, "pixels and features"));
  return {};
}

template <class List>
Status send_list(Device& device, Memory& m, const List& list) {
  const size_t bytes = list.size() * sizeof(list[0]);
  if (bytes == 0) return {};
  SLIP_TRY_(grow(device, m, bytes));
  return device.copy_in(m.data(), list.data(), bytes);
}

}  // namespace

Result<std::unique_ptr<CudaVision>> CudaVision::create(std::unique_ptr<Device> device, const DeviceVisionWeights& w,
                                                       ThreadPool& pool) {
  const auto all_fit = [](std::initializer_list<const PackedMatrix*> list) {
    return std::all_of(list.begin(), list.end(), [](const PackedMatrix* m) { return has_tiles(m->type()); });
  };
  const auto fits = [&](const DeviceVisionBlock& b) { return all_fit({b.qkv, b.proj, b.gate_up, b.down}); };
  if (!all_fit({w.patch_embed, w.merger_0, w.merger_2}) || !std::all_of(w.blocks.begin(), w.blocks.end(), fits))
    return unsupported("the vision tower on {}: expected bf16, int8 or int4 weights (--dtype bf16), got f32", device->name());
  constexpr int kPiece = 8;  // numbers that are written together
  if (w.cell_patches > 1 && w.width % kPiece != 0)
    return unsupported("the vision tower on {}: expected a width that is a multiple of {}, got {}", device->name(), kPiece,
                       w.width);
  if (const int32_t head = w.width / w.heads; head > kWidestHead || head % 2 != 0)
    return unsupported("the vision tower on {}: expected heads of an even width up to {}, got {}", device->name(), kWidestHead,
                       head);
  std::unique_ptr<CudaVision> vision(new CudaVision(std::move(device)));
  SLIP_TRY_(vision->upload_weights(w, pool));
  vision->device_->drop_staging();
  return vision;
}

Result<CudaVision::Block> CudaVision::upload_block(const DeviceVisionBlock& w, ThreadPool& pool) {
  Device& d = *device_;
  Block b;
  SLIP_TRY(b.norm1_D, upload(d, w.norm1_D));
  SLIP_TRY(b.norm2_D, upload(d, w.norm2_D));
  SLIP_TRY(b.qkv_bias, upload(d, w.qkv_bias));
  SLIP_TRY(b.proj_bias, upload(d, w.proj_bias));
  SLIP_TRY(b.gate_up_bias, upload(d, order_gate_up(w.gate_up_bias)));
  SLIP_TRY(b.down_bias, upload(d, w.down_bias));
  SLIP_TRY(b.qkv, upload(d, *w.qkv, pool));
  SLIP_TRY(b.proj, upload(d, *w.proj, pool));
  SLIP_TRY(b.gate_up, upload_gate_up(d, *w.gate_up, pool));
  SLIP_TRY(b.down, upload(d, *w.down, pool));
  b.sees_frames = w.sees_frames;
  for (const DeviceMatrix* m : {&b.qkv, &b.proj, &b.gate_up, &b.down}) most_tiles_ = std::max(most_tiles_, m->tiles.tiles);
  return b;
}

Status CudaVision::upload_weights(const DeviceVisionWeights& w, ThreadPool& pool) {
  Device& d = *device_;
  width_ = w.width;
  heads_ = w.heads;
  padded_ = (w.width / w.heads + kHeadStep - 1) / kHeadStep * kHeadStep;
  planner_ = AttentionPlanner(1, may_walk(w.width / w.heads));
  cell_patches_ = w.cell_patches;
  patch_numbers_ = static_cast<int32_t>(w.patch_embed->k());
  eps_ = w.eps;
  out_width_ = static_cast<int32_t>(w.merger_2->n());
  SLIP_TRY(patch_embed_, upload(d, *w.patch_embed, pool));
  SLIP_TRY(merger_norm_D_, upload(d, w.merger_norm_D));
  SLIP_TRY(merger_0_, upload(d, *w.merger_0, pool));
  SLIP_TRY(merger_2_, upload(d, *w.merger_2, pool));
  SLIP_TRY(merger_0_bias_, upload(d, w.merger_0_bias));
  SLIP_TRY(merger_2_bias_, upload(d, w.merger_2_bias));
  for (const DeviceMatrix* m : {&patch_embed_, &merger_0_, &merger_2_}) most_tiles_ = std::max(most_tiles_, m->tiles.tiles);
  for (const DeviceVisionBlock& block : w.blocks) {
    SLIP_TRY(Block b, upload_block(block, pool));
    gated_ = std::max(gated_, b.gate_up.tiles.n / 2);
    blocks_.push_back(std::move(b));
  }
  SLIP_TRY(b_.arrivals, d.allocate(static_cast<size_t>(most_tiles_) * sizeof(int32_t), "the vision tower's activations"));
  return {};
}

Status CudaVision::make_room(int rows, size_t partials) {
  Device& d = *device_;
  const auto n = static_cast<size_t>(rows), width = static_cast<size_t>(width_), heads = static_cast<size_t>(heads_);
  const size_t lines = n * heads * static_cast<size_t>(padded_), cell_width = width * static_cast<size_t>(cell_patches_);
  const size_t cells = n / static_cast<size_t>(cell_patches_);
  SLIP_TRY_(grow(d, b_.counts, sizeof(PassCounts)));
  SLIP_TRY_(grow(d, b_.rows_PK, row_bytes(n, std::max(width_, patch_numbers_))));
  SLIP_TRY_(grow(d, b_.x_PD, n * width * sizeof(float)));
  SLIP_TRY_(grow(d, b_.qkv_PE, n * 3 * width * sizeof(float)));
  for (Memory* m : {&b_.q_PHP, &b_.keys, &b_.values}) SLIP_TRY_(grow(d, *m, lines * sizeof(Bf16)));
  SLIP_TRY_(grow(d, b_.sums_NHP, partials * heads * static_cast<size_t>(padded_) * sizeof(float)));
  for (Memory* m : {&b_.tops_NH, &b_.totals_NH}) SLIP_TRY_(grow(d, *m, partials * heads * sizeof(float)));
  SLIP_TRY_(grow(d, b_.attended_PD, row_bytes(n, width_)));
  SLIP_TRY_(grow(d, b_.gated_PF, row_bytes(n, gated_)));
  for (Memory* m : {&b_.cells_CK, &b_.hidden_CK}) SLIP_TRY_(grow(d, *m, row_bytes(cells, static_cast<int64_t>(cell_width))));
  SLIP_TRY_(grow(d, b_.features_CE, cells * static_cast<size_t>(out_width_) * sizeof(float)));
  return grow(d, b_.shares, share_numbers(rows) * sizeof(float));
}

/// Cameras have few sizes, so they go over once.
Result<const CudaVision::AxisTaps*> CudaVision::taps_there(const BicubicTaps& taps, int32_t from, int32_t to) {
  static_assert(BicubicTaps::kFractionBits == kTapFractionBits && sizeof(BicubicTaps::Range) == sizeof(TapRange));
  constexpr size_t kMost = 16;
  const auto same = [&](const AxisTaps& t) { return t.from == from && t.to == to; };
  if (const auto found = std::ranges::find_if(taps_, same); found != taps_.end()) return &*found;
  AxisTaps t{from, to, {}, {}};
  if (taps_.size() == kMost) {  // the oldest ones' memory: the stream has read them before it writes these
    t.ranges = std::move(taps_.front().ranges);
    t.weights = std::move(taps_.front().weights);
    taps_.erase(taps_.begin());
  }
  SLIP_TRY_(send_list(*device_, t.ranges, taps.ranges));
  SLIP_TRY_(send_list(*device_, t.weights, taps.weights));
  return &taps_.emplace_back(std::move(t));
}

/// One axis of a picture, from `rgb` and its sides to the resized picture's; nothing for an axis that keeps its size.
Status CudaVision::resize_along(const DevicePicture& p, bool down, const uint8_t** rgb, int* width, int* height) {
  const BicubicTaps* taps = down ? p.down : p.across;
  if (taps == nullptr) return {};
  SLIP_TRY(const AxisTaps* const there, taps_there(*taps, down ? p.height : p.width, down ? p.to_height : p.to_width));
  const ResizeArgs args{*rgb,
                        *width,
                        as<uint8_t>(down ? b_.resized : b_.across),
                        down ? *width : p.to_width,
                        down ? p.to_height : *height,
                        as<TapRange>(there->ranges),
                        as<int32_t>(there->weights),
                        taps->stride,
                        down};
  resize(args, device_->stream());
  *rgb = args.out;
  *width = args.width;
  *height = args.height;
  return {};
}

Status CudaVision::make_patches(const DevicePicture& p, float* pixels_PN) {
  Device& d = *device_;
  SLIP_TRY_(d.copy_in(b_.picture.data(), p.rgb.data(), p.rgb.size()));
  if (!table_ || *table_ != *p.table) {
    SLIP_TRY_(send_list(d, b_.table, *p.table));
    table_ = *p.table;
  }
  const uint8_t* rgb = as<uint8_t>(b_.picture);
  int width = p.width, height = p.height;
  SLIP_TRY_(resize_along(p, p.down_first, &rgb, &width, &height));
  SLIP_TRY_(resize_along(p, !p.down_first, &rgb, &width, &height));
  cut({rgb, width, height, p.patch, p.merge, p.frames, as<float>(b_.table), pixels_PN}, d.stream());
  return {};
}

/// Of all images, one behind the other. A picture's buffers serve the next one too: the stream does one after the other.
Status CudaVision::send_pixels(std::span<const DeviceImage> images) {
  size_t patches = 0, picture = 0, most = 0;
  for (const DeviceImage& image : images) {
    patches += static_cast<size_t>(image.patches);
    if (!image.picture) continue;
    picture = std::max(picture, image.picture->rgb.size());
    most = std::max(most, size_t{3} * static_cast<size_t>(std::max(image.picture->width, image.picture->to_width)) *
                              static_cast<size_t>(std::max(image.picture->height, image.picture->to_height)));
  }
  SLIP_TRY_(grow(*device_, b_.pixels_PN, patches * static_cast<size_t>(patch_numbers_) * sizeof(float)));
  SLIP_TRY_(grow(*device_, b_.picture, picture));
  for (Memory* m : {&b_.across, &b_.resized}) SLIP_TRY_(grow(*device_, *m, most));
  float* to = as<float>(b_.pixels_PN);
  for (const DeviceImage& image : images) {
    if (image.picture) {
      SLIP_TRY_(make_patches(*image.picture, to));
    } else {
      SLIP_TRY_(device_->copy_in(to, image.pixels_PN.data(), image.pixels_PN.size_bytes()));
    }
    to += static_cast<size_t>(image.patches) * static_cast<size_t>(patch_numbers_);
  }
  return {};
}

Status CudaVision::send(const DeviceVisionPass& pass, int32_t cells) {
  Device& d = *device_;
  counts_ = {static_cast<int32_t>(pass.source_P.size()), cells, 0, 0};
  slots_.resize(pass.source_P.size());
  std::iota(slots_.begin(), slots_.end(), 0);
  SLIP_TRY_(d.copy_in(b_.counts.data(), &counts_, sizeof counts_));
  SLIP_TRY_(send_pixels(pass.images));
  SLIP_TRY_(send_list(d, b_.source_P, pass.source_P));
  SLIP_TRY_(send_list(d, b_.slots_P, slots_));
  SLIP_TRY_(send_list(d, b_.cos_PK2, pass.cos_PK2));
  return send_list(d, b_.sin_PK2, pass.sin_PK2);
}

/// Pieces hold whole 64 rows. What a row's sums are does not depend on the cut.
Status CudaVision::plan(std::span<const RowSpans> spans_P, std::span<const SlotSpan> spans, Plans& plans) {
  const auto partials_of = [&](size_t r) {
    int64_t slots = 0;
    for (const SlotSpan s : spans.subspan(spans_P[r].first, spans_P[r].count)) slots += s.end - s.begin;
    return (slots + kKeyChunk - 1) / kKeyChunk;
  };
  size_t used = 0;
  for (size_t first = 0; first < spans_P.size(); ++used) {
    if (used == plans.size()) plans.emplace_back();
    Plan& plan = plans[used];
    rows_.clear();
    int64_t partials = 0;
    for (size_t r = first; r < spans_P.size() && (partials < kMostPartials || rows_.size() % kMostQueries != 0); ++r) {
      partials += partials_of(r);
      Row& row = rows_.emplace_back();
      row.sees_first = spans_P[r].first;
      row.sees_count = spans_P[r].count;
    }
    planner_.plan({rows_, spans}, plan.host);
    for (ItemRow& row : plan.host.item_rows) row.row += static_cast<int32_t>(first);
    for (Item& item : plan.host.items) item.fresh = ~0U;  // all keys are of this call
    plan.first_row = static_cast<int32_t>(first);
    plan.rows = static_cast<int32_t>(rows_.size());
    first += rows_.size();
  }
  plans.resize(used);
  for (Plan& p : plans) SLIP_TRY_(send_plan(p));
  return {};
}

Status CudaVision::send_plan(Plan& plan) {
  plan.host_counts = {.rows = plan.rows,
                      .items = static_cast<int32_t>(plan.host.items.size()),
                      .walks = static_cast<int32_t>(plan.host.walks.size())};
  SLIP_TRY_(grow(*device_, plan.counts, sizeof(PassCounts)));
  SLIP_TRY_(device_->copy_in(plan.counts.data(), &plan.host_counts, sizeof(PassCounts)));
  SLIP_TRY_(send_list(*device_, plan.items, plan.host.items));
  SLIP_TRY_(send_list(*device_, plan.item_rows, plan.host.item_rows));
  SLIP_TRY_(send_list(*device_, plan.slots, plan.host.slots));
  SLIP_TRY_(send_list(*device_, plan.sees_P, plan.host.sees_T));
  SLIP_TRY_(send_list(*device_, plan.walks, plan.host.walks));
  return send_list(*device_, plan.first_partial_P, plan.host.first_partial_T);
}

ProductArgs CudaVision::product_of(const DeviceMatrix& w, const RowTiles& x, Then then) const {
  return product_args(&as<const PassCounts>(b_.counts)->rows, w, x, then, {as<float>(b_.shares), as<int32_t>(b_.arrivals)});
}

void CudaVision::launch_attention(const Plans& plans, int rows) {
  void* stream = device_->stream();
  const int32_t head_width = width_ / heads_;
  const float factor = static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(head_width)));
  place({as<const PassCounts>(b_.counts), as<float>(b_.qkv_PE), as<float>(b_.cos_PK2), as<float>(b_.sin_PK2), nullptr, nullptr,
         eps_, nullptr, factor, as<int32_t>(b_.slots_P), heads_, heads_, head_width, head_width / 2, padded_, as<Bf16>(b_.q_PHP),
         as<Bf16>(b_.keys), as<Bf16>(b_.values)},
        rows, stream);
  for (const Plan& p : plans) {
    const auto* counts = as<const PassCounts>(p.counts);
    if (const auto walks = static_cast<int>(p.host.walks.size()); walks > 0) {
      walk({counts, as<Walk>(p.walks), as<Item>(p.items), as<int32_t>(p.slots), as<int32_t>(p.sees_P), as<Bf16>(b_.q_PHP),
            as<Bf16>(b_.keys), as<Bf16>(b_.values), heads_, heads_, head_width, padded_, row_tiles(b_.attended_PD, rows),
            p.first_row},
           walks, stream);
      continue;
    }
    attend({counts, as<Item>(p.items), as<ItemRow>(p.item_rows), as<int32_t>(p.slots), as<Bf16>(b_.q_PHP), as<Bf16>(b_.keys),
            as<Bf16>(b_.values), heads_, heads_, padded_, as<float>(b_.sums_NHP), as<float>(b_.tops_NH), as<float>(b_.totals_NH)},
           static_cast<int>(p.host.items.size()), p.host.most_rows, stream, static_cast<int>(p.host.items.size()));
    join({counts, as<int32_t>(p.first_partial_P), as<float>(b_.sums_NHP), as<float>(b_.tops_NH), as<float>(b_.totals_NH), heads_,
          head_width, padded_, row_tiles(b_.attended_PD, rows), p.first_row},
         p.rows, stream);
  }
}

void CudaVision::launch_block(const Block& block, const Plans& plans, int rows) {
  void* stream = device_->stream();
  const int32_t* count = &as<const PassCounts>(b_.counts)->rows;
  const RowTiles normed = row_tiles(b_.rows_PK, rows), gated = row_tiles(b_.gated_PF, rows);
  const auto multiply = [&](ProductArgs args, const Memory& bias, const Memory& out, int32_t ldo) {
    args.bias_N = as<float>(bias);
    args.out = as<float>(out);
    args.ldo = ldo;
    args.gated = gated;
    product(args, rows, stream);
  };
  norm({count, nullptr, as<float>(b_.x_PD), as<float>(block.norm1_D), eps_, width_, normed}, rows, stream);
  multiply(product_of(block.qkv, normed, Then::kStore), block.qkv_bias, b_.qkv_PE, 3 * width_);
  launch_attention(plans, rows);
  multiply(product_of(block.proj, row_tiles(b_.attended_PD, rows), Then::kAdd), block.proj_bias, b_.x_PD, width_);
  norm({count, nullptr, as<float>(b_.x_PD), as<float>(block.norm2_D), eps_, width_, normed}, rows, stream);
  multiply(product_of(block.gate_up, normed, Then::kSwiglu), block.gate_up_bias, {}, 0);
  multiply(product_of(block.down, gated, Then::kAdd), block.down_bias, b_.x_PD, width_);
}

void CudaVision::launch_merger(int rows, int cells) {
  void* stream = device_->stream();
  const auto* counts = as<const PassCounts>(b_.counts);
  const RowTiles side_by_side = row_tiles(b_.cells_CK, cells), hidden = row_tiles(b_.hidden_CK, cells);
  norm({&counts->rows, nullptr, as<float>(b_.x_PD), as<float>(merger_norm_D_), eps_, width_, side_by_side, cell_patches_}, rows,
       stream);
  ProductArgs first = product_of(merger_0_, side_by_side, Then::kGelu);
  first.count = &counts->wanted;
  first.bias_N = as<float>(merger_0_bias_);
  first.gated = hidden;
  product(first, cells, stream);
  ProductArgs second = product_of(merger_2_, hidden, Then::kStore);
  second.count = &counts->wanted;
  second.bias_N = as<float>(merger_2_bias_);
  second.out = as<float>(b_.features_CE);
  second.ldo = out_width_;
  product(second, cells, stream);
}

Result<DeviceVision::Room> CudaVision::room(size_t numbers, size_t bytes) {
  SLIP_TRY_(grow_host(*device_, pixels_host_, numbers * sizeof(float)));
  SLIP_TRY_(grow_host(*device_, pictures_host_, bytes));
  return Room{{pixels_host_.data<float>(), numbers}, {pictures_host_.data<uint8_t>(), bytes}};
}

Result<std::vector<FeatureBlock>> CudaVision::put_features(std::span<const DeviceImage> images) {
  std::vector<FeatureBlock> out;
  int32_t first = 0;
  for (const DeviceImage& image : images) {
    const int32_t cells = image.patches / cell_patches_;
    SLIP_TRY(Memory memory, feature_memory_->take(static_cast<size_t>(cells) * static_cast<size_t>(out_width_) * sizeof(float)));
    auto made = std::make_shared<CudaFeatures>(feature_memory_, std::move(memory), cells, out_width_, image.content);
    put_cells({as<float>(b_.features_CE), as<int32_t>(b_.source_P), first, cell_patches_, out_width_, made->data()}, cells,
              device_->stream());
    out.push_back(std::move(made));
    first += cells;
  }
  return out;
}

Result<std::vector<FeatureBlock>> CudaVision::run(const DeviceVisionPass& pass) {
  const auto rows = static_cast<int>(pass.source_P.size()), cells = rows / cell_patches_;
  SLIP_TRY_(plan(pass.windows_P, pass.windows, windows_));
  SLIP_TRY_(plan(pass.frames_P, pass.frames, frames_));
  size_t partials = 0;
  for (const Plans* plans : {&windows_, &frames_})
    for (const Plan& p : *plans) partials = std::max(partials, p.host.item_rows.size());
  SLIP_TRY_(make_room(rows, partials));
  SLIP_TRY_(send(pass, cells));
  gather({as<int32_t>(b_.source_P), as<float>(b_.pixels_PN), patch_numbers_, row_tiles(b_.rows_PK, rows)}, rows, device_->stream());
  ProductArgs embedding = product_of(patch_embed_, row_tiles(b_.rows_PK, rows), Then::kStore);
  embedding.out = as<float>(b_.x_PD);
  embedding.ldo = width_;
  product(embedding, rows, device_->stream());
  for (const Block& block : blocks_) launch_block(block, block.sees_frames ? frames_ : windows_, rows);
  launch_merger(rows, cells);
  return put_features(pass.images);
}

Result<std::vector<FeatureBlock>> CudaVision::encode(const DeviceVisionPass& pass) {
  auto made = run(pass);
  const Status ended = device_->wait();  // after a failure too: what is on its way reads the host's memory
  if (made) SLIP_TRY_(ended);
  return made;
}

}  // namespace slip::cuda
