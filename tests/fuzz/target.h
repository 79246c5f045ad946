// SPDX-License-Identifier: Apache-2.0
// Fuzz targets: one function per kind of file that comes from outside. A target reads its bytes as the product would, and aborts
// where a promise is broken (an answer that contradicts itself, an error without words); crashes, sanitizer reports, hangs and large
// allocations are the fuzzer's to notice. `docs/hostile.md` lists them. The same functions run over their seeds and a fixed number
// of mutations in the ordinary tests (replay_test.cc).
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slip::fuzz {

using Bytes = std::span<const std::byte>;

/// How inputs are best changed: as bytes, as a JSON document, or as a safetensors file whose header is JSON.
enum class Shape { kBytes, kJson, kSafetensors };

struct Target {
  std::string_view name;
  Shape shape;
  void (*run)(Bytes);
  std::vector<std::string> (*seeds)();
};

/// Prints `why` and aborts unless `ok`: a finding.
void require(bool ok, std::string_view why);
/// What every refusal must be: of a kind that speaks of the input, with words.
void require_refusal(const Error& error);

/// A folder of this process, in memory where the machine has such a place; removed at exit.
const std::filesystem::path& scratch();
/// Writes a file of the scratch folder, without a sync.
void put(std::string_view name, std::string_view bytes);
inline std::string_view text_of(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

/// A fixture's bytes; aborts where it is missing.
std::string fixture(const std::filesystem::path& below_fixtures);
/// All fixtures of a folder with this extension, at most `largest` bytes each, in name order.
std::vector<std::string> fixtures_in(const std::filesystem::path& below_fixtures, std::string_view extension,
                                     size_t largest = 1 << 16);

/// Length, header, and so many bytes of data.
std::string safetensors_file(std::string_view header, size_t data);

}  // namespace slip::fuzz
