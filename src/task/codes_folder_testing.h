// SPDX-License-Identifier: Apache-2.0
// For tests: models/demo-cot as a model that answers in codes. Its vocabulary has rows that no token used: twelve of them become codes, of a
// codebook made of a few scenes. Nobody taught it to use them, so that its codes mean nothing; which they are it decides as any other token.
#pragma once
#include <filesystem>
#include <stdexcept>
#include <string>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/json.h"
#include "base/must_testing.h"
#include "sim/record/make.h"
#include "task/codes.h"

namespace slip::test {

class CodesFolder {
 public:
  static constexpr int32_t kCodes = 12;

  CodesFolder() {
    namespace fs = std::filesystem;
    for (const char* name : {"model.safetensors", "preprocessor_config.json", "tokenizer_config.json"})
      fs::create_symlink(from_ / name, path / name);
    json::value tokenizer = must(read_json(from_ / "tokenizer.json"));
    json::array& added = tokenizer.at("added_tokens").as_array();
    for (int32_t c = 0; c < kCodes; ++c) {
      json::object token = added[0].as_object();
      token["id"] = added.back().at("id").as_int64() + 1;
      token["content"] = fmt::format("<|code_{}|>", c);
      added.push_back(std::move(token));
    }
    write("tokenizer.json", tokenizer);
    json::value config = must(read_json(from_ / "config.json"));
    config.at("slipstream").as_object()["codes"] = {{"count", 6}, {"values", kCodes}};
    write("config.json", config);
    std::vector<std::vector<Pose>> futures;
    for (uint64_t seed = 0; seed < 40; ++seed) futures.push_back(future_poses(must(sim::make_record(seed, {}, false)).labels));
    write("codebook.json", must(TrajectoryCodebook::make(futures, {.codes = kCodes, .steps = 11, .iterations = 5})).to_json());
  }

  void write(const char* name, const json::value& v) const {
    if (const Status s = write_file(path / name, pretty(v)); !s) throw std::runtime_error(s.error().message);
  }

 private:
  const std::filesystem::path from_ = std::filesystem::path(SLIP_SOURCE_DIR) / "models" / "demo-cot";
  const TemporaryFolder folder_;

 public:
  const std::filesystem::path& path = folder_.path;
};

}  // namespace slip::test
