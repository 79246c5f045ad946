// SPDX-License-Identifier: Apache-2.0
// The loss log and its picture; contracts in loss_log.h.
#include "train/loop/loss_log.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/json.h"

namespace slip {

std::string to_line(const LossPoint& p) {
  const std::string acceptance = p.acceptance < 0 ? "" : fmt::format(", \"acceptance\": {:.4g}", p.acceptance);
  return fmt::format(
      "{{\"step\": {}, \"loss\": {:.6g}, \"noisy\": {:.6g}, \"ar\": {:.6g}, \"lr\": {:.6g}, \"gradient_norm\": {:.6g}, "
      "\"samples_per_s\": {:.4g}, \"elapsed_s\": {:.6g}{}{}}}\n",
      p.step, p.loss, p.noisy, p.ar, p.lr, p.gradient_norm, p.samples_per_s, p.elapsed_s, acceptance,
      p.validation ? fmt::format(", \"validation\": {:.6g}", *p.validation) : "");
}

Result<std::vector<LossPoint>> read_loss_log(const std::filesystem::path& file) {
  SLIP_TRY(const std::string text, read_file(file));
  std::vector<LossPoint> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    SLIP_TRY(const json::value v, parse_json(std::string_view(text).substr(at, end - at), file.string()));
    if (!v.is_object()) return bad_input("{}: expected an object per line, got {}", file.string(), json::serialize(v));
    const json::object& o = v.get_object();
    LossPoint p;
    SLIP_TRY(p.step, get_int(o, "step", file.string()));
    SLIP_TRY(p.loss, get_number(o, "loss", file.string()));
    SLIP_TRY(p.noisy, get_number(o, "noisy", file.string()));
    SLIP_TRY(p.ar, get_number(o, "ar", file.string()));
    SLIP_TRY(p.lr, get_number(o, "lr", file.string()));
    SLIP_TRY(p.gradient_norm, get_number(o, "gradient_norm", file.string()));
    SLIP_TRY(p.samples_per_s, get_number(o, "samples_per_s", file.string()));
    SLIP_TRY(p.elapsed_s, get_number(o, "elapsed_s", file.string()));
    SLIP_TRY(p.acceptance, number_or(o, "acceptance", -1, file.string()));
    if (o.contains("validation")) {
      SLIP_TRY(p.validation, get_number(o, "validation", file.string()));
    }
    out.push_back(p);
    at = end + 1;
  }
  return out;
}

std::string loss_svg(const std::vector<LossPoint>& points) {
  constexpr double kWidth = 720, kHeight = 360, kLeft = 56, kBottom = 32, kTop = 24, kRight = 12;
  const auto floor_of = [](double v) { return std::max(v, 1e-4); };
  double low = 1e9, high = 1e-9;
  for (const LossPoint& p : points)
    for (const double v : {p.noisy, p.ar}) low = std::min(low, floor_of(v)), high = std::max(high, floor_of(v));
  if (points.empty() || low >= high) low = 0.1, high = 10;
  const double bottom = std::log10(low), span = std::log10(high) - bottom;
  const double first = points.empty() ? 0 : static_cast<double>(points.front().step),
               last = points.empty() ? 1 : static_cast<double>(points.back().step);
  const auto x = [&](double step) { return kLeft + (kWidth - kLeft - kRight) * (step - first) / std::max(1.0, last - first); };
  const auto y = [&](double v) {
    return kHeight - kBottom - (kHeight - kBottom - kTop) * (std::log10(floor_of(v)) - bottom) / span;
  };
  const size_t group = points.size() / 600 + 1;
  const auto line = [&](double LossPoint::*what, const char* colour) {
    std::string path;
    for (size_t i = 0; i < points.size(); i += group) {
      double sum = 0, n = 0;
      for (size_t k = i; k < std::min(points.size(), i + group); ++k, ++n) sum += points[k].*what;
      path += fmt::format("{:.1f},{:.1f} ", x(static_cast<double>(points[i].step)), y(sum / n));
    }
    return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"{}\"/>\n", colour, path);
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, kHeight);
  for (double decade = std::pow(10, std::floor(bottom)); decade <= high * 1.01; decade *= 10)
    for (const double v : {decade, 2 * decade, 5 * decade})
      if (v >= low && v <= high)
        svg += fmt::format(
            "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/><text x=\"{3}\" y=\"{4:.1f}\" "
            "text-anchor=\"end\">{5:.3g}</text>\n",
            kLeft, kWidth - kRight, y(v), kLeft - 6, y(v) + 4, v);
  svg += line(&LossPoint::noisy, "#c0392b") + line(&LossPoint::ar, "#2c5f9e");
  svg += fmt::format(
      "<text x=\"{}\" y=\"16\" fill=\"#c0392b\">masked tokens</text><text x=\"{}\" y=\"16\" fill=\"#2c5f9e\">next token</text>\n",
      kLeft, kLeft + 110);
  svg += fmt::format("<text x=\"{}\" y=\"{}\">step {}</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">step {}</text>\n</svg>\n",
                     kLeft, kHeight - 10, static_cast<int64_t>(first), kWidth - kRight, kHeight - 10, static_cast<int64_t>(last));
  return svg;
}

}  // namespace slip
