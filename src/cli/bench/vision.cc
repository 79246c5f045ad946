// SPDX-License-Identifier: Apache-2.0
// `bench vision`: from a driving request's pictures to feature rows, stage by stage: decode, resize (with cutting into patches), the
// tower's patch embedding, its blocks within windows, its blocks within frames, its merger. Pictures are files, or noise over a slope as
// PNG in memory, at the size of Waymo's cropped cameras and with Fast-dDrive's budget of pixels: 3 x 960 patches, 3 x 240 features.
// With --device the tower's time is the device's, copies included, and not told by stages; the peak is the device's.
#include <algorithm>
#include <optional>

#include "api/tools/limits/case.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/measure.h"
#include "cli/bench/measure.h"
#include "cli/bench/pictures.h"
#include "cli/output.h"
#include "models/device.h"
#include "models/weights/packed_folder.h"

namespace slip::cli {

namespace {
Image noise(int width, int height, uint32_t seed) {
  Image out{width, height, std::vector<uint8_t>(size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height))};
  uint32_t h = seed * 2654435761U + 1;
  for (size_t i = 0; i < out.rgb.size(); ++i) {
    h = h * 1664525U + 1013904223U;
    out.rgb[i] = static_cast<uint8_t>(i / 3 % static_cast<size_t>(width) * 200 / static_cast<size_t>(width) + (h >> 28));
  }
  return out;
}

}  // namespace

Result<std::vector<PictureBytes>> driving_pictures(const std::vector<std::string>& files, int cameras, int width, int height) {
  std::vector<PictureBytes> out;
  for (const std::string& file : files) {
    SLIP_TRY(const std::string bytes, read_file(file));
    const auto* p = reinterpret_cast<const std::byte*>(bytes.data());
    out.push_back({file, {p, p + bytes.size()}});
  }
  for (int c = 0; files.empty() && c < cameras; ++c) {
    SLIP_TRY(std::vector<std::byte> png, encode_png(noise(width, height, static_cast<uint32_t>(c))));
    out.push_back({fmt::format("camera {}", c), std::move(png)});
  }
  return out;
}

Result<EncodedPictures> patch_pictures(Model& model, std::span<const PictureBytes> pictures, int64_t max_pixels) {
  if (!model.vision() || !model.preprocessor())
    return unsupported("{}: expected a model with Qwen2.5-VL's vision tower, got {}", model.folder().string(),
                       model.config().architecture);
  PreprocessorConfig config = *model.preprocessor();
  config.max_pixels = std::min(config.max_pixels, max_pixels);
  EncodedPictures out;
  std::vector<std::optional<Result<Image>>> images(pictures.size());
  std::vector<std::optional<Result<PatchGrid>>> grids(pictures.size());
  const auto each = static_cast<int64_t>(pictures.size());
  auto last = Clock::now();
  model.pool().run(each, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    images[at] = decode_image(pictures[at].bytes, pictures[at].name);
  });
  for (auto& image : images)
    if (!*image) return image->error();
  out.decode_ms = lap(last);
  model.pool().run(each, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    Image& image = **images[at];
    grids[at] = model.vision()->makes_patches() ? patches_to_make(std::make_shared<const Image>(std::move(image)), config)
                                                : qwen_patches(image, config);
  });
  for (auto& grid : grids) {
    if (!*grid) return grid->error();
    out.grids.push_back(std::move(**grid));
  }
  out.resize_ms = lap(last);
  return out;
}

Status run_tower(Model& model, EncodedPictures& pictures) {
  auto last = Clock::now();
  SLIP_TRY_(model.image_features(pictures.grids, pictures.features));
  pictures.tower_ms = lap(last);
  pictures.tower = model.vision()->times();
  return {};
}

Result<EncodedPictures> encode_pictures(Model& model, std::span<const PictureBytes> pictures, int64_t max_pixels) {
  SLIP_TRY(EncodedPictures out, patch_pictures(model, pictures, max_pixels));
  SLIP_TRY_(run_tower(model, out));
  return out;
}

namespace {

/// Multiplications and additions of the tower over these pictures, whatever the machine.
Result<TowerWork> work_of(const VisionConfig& config, std::span<const PatchGrid> grids) {
  std::vector<TowerGrid> pictures;
  for (const PatchGrid& g : grids) pictures.push_back({.rows = g.h, .columns = g.w, .frames = g.t});
  SLIP_TRY(const PassTime pass,
           tower_pass(api::tower_shape_of(config), Machine{.gb_per_s = 1, .bf16_tflops = 1}, pictures, "bf16"));
  return tower_work(pass);
}

struct VisionRuns {
  std::vector<EncodedPictures> runs;
  Steady steady;
  double peak_gops = 0;
  bool by_stages = true;  // a device does not tell them
  // The median over the runs that count.
  double of(auto number) const {
    std::vector<double> v;
    for (const size_t i : steady.samples) v.push_back(number(runs[i]));
    return median(std::move(v));
  }
  json::object ms() const {
    if (!by_stages)
      return {{"decode", of([](auto& r) { return r.decode_ms; })},
              {"hash", of([](auto& r) { return r.resize_ms; })},  // of the picture, by which its features are known
              {"tower", of([](auto& r) { return r.tower_ms; })}};
    return {{"decode", of([](auto& r) { return r.decode_ms; })},
            {"resize", of([](auto& r) { return r.resize_ms; })},
            {"patch_embed", of([](auto& r) { return r.tower.patch_embed; })},
            {"windowed_blocks", of([](auto& r) { return r.tower.windowed; })},
            {"full_blocks", of([](auto& r) { return r.tower.full; })},
            {"merger", of([](auto& r) { return r.tower.merger; })},
            {"tower", of([](auto& r) { return r.tower_ms; })}};
  }
};

Result<VisionRuns> measure(Model& model, std::span<const PictureBytes> pictures, const BenchVisionOptions& o) {
  SLIP_TRY(const DeviceName device, parse_device(o.device));
  SLIP_TRY_(encode_pictures(model, pictures, o.max_pixels));  // settles buffers
  StateWatch watch(model.pool());
  VisionRuns out;
  std::vector<MachineState> states;
  if (!device.cpu()) {
    SLIP_TRY(const DeviceCeilings ceilings, device_ceilings(device));
    out.peak_gops = ceilings.dot_gops;
    out.by_stages = false;
  }
  for (int i = 0; i < o.repeats; ++i) {
    SLIP_TRY_(check_interrupt());
    if (device.cpu()) out.peak_gops = std::max(out.peak_gops, dot_gops(model.options().type, model.pool()));
    SLIP_TRY(EncodedPictures run, encode_pictures(model, pictures, o.max_pixels));
    out.runs.push_back(std::move(run));
    states.push_back(watch.next());
  }
  out.steady = steady_samples(states);
  return out;
}

}  // namespace

Status bench_vision(const BenchVisionOptions& o) {
  SLIP_TRY(const std::vector<PictureBytes> pictures, driving_pictures(o.images, o.cameras, o.width, o.height));
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(o.model, o.dtype, o.threads, 64, o.device));
  Model& model = engine->model();
  SLIP_TRY(const VisionRuns runs, measure(model, pictures, o));
  const std::vector<PatchGrid>& grids = runs.runs.front().grids;
  SLIP_TRY(const TowerWork work, work_of(*model.config().vision, grids));
  int patches = 0;
  for (const PatchGrid& g : grids) patches += g.patches();
  const json::object ms = runs.ms();
  const Steady& steady = runs.steady;
  const double peak = runs.peak_gops, share = work.products / (peak * 1e6) / ms.at("tower").as_double();
  if (o.json) {
    print_json(json::object{{"bench", "vision"},
                            {"model", o.model},
                            {"type", word_of_type(model.options().type)},
                            {"device", o.device},
                            {"images", pictures.size()},
                            {"patches", patches},
                            {"ms", ms},
                            {"products_gflop", work.products * 1e-9},
                            {"attention_gflop", work.attention * 1e-9},
                            {"share", share},
                            {"dot_gops", peak},
                            {"read_gbps", steady.read_gbps},
                            {"samples", steady.samples.size()},
                            {"steady", steady.is},
                            {"isa", isa_of(o.device)},
                            {"threads", model.pool().threads()}});
    return {};
  }
  print_text(fmt::format("{}, {}: {} images, {} patches, {:.0f} GFLOP of products, peak {:.0f} G operations/s\n\n", o.model,
                         word_of_type(model.options().type), pictures.size(), patches, work.products * 1e-9, peak));
  for (const auto& [name, value] : ms)
    print_text(fmt::format("  {:<16} {:>10.1f} ms\n", std::string_view(name), value.as_double()));
  print_text(fmt::format("\n  the tower's products alone would take {:.1f} ms at the peak: share {:.0f}%{}\n",
                         work.products / (peak * 1e6), 100 * share, steady.is ? "" : "; unsteady: the bandwidth changed"));
  return {};
}

}  // namespace slip::cli
