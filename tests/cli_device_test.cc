// SPDX-License-Identifier: Apache-2.0
// `--device`: a plug-in over an emulated device stands where a machine's own would, found through SLIPSTREAM_PLUGINS.
#include <cmath>
#include <cstdlib>

#include "cli_process.h"
#include "core/safetensors.h"

namespace slip::test {
namespace {

class Device : public Cli {
 protected:
  Device() { setenv("SLIPSTREAM_PLUGINS", SLIP_EMULATED_PLUGINS, 1); }
  ~Device() override { unsetenv("SLIPSTREAM_PLUGINS"); }

  std::vector<float> logits(const std::string& device, int split) {
    const std::string folder = fixture("models/qwen3"), out = path("logits.safetensors");
    const json::value said = run_json({"forward", "--model", folder, "--rows", folder + "/rows_tree.json", "--out", out, "--dtype",
                                       "bf16", "--device", device, "--split", std::to_string(split)});
    EXPECT_GT(said.at("rows").as_int64(), 0);
    const auto file = Checkpoint::open_file(out);
    EXPECT_TRUE(file) << file.error().message;
    return read_as_f32(*file->find("logits_TV"));
  }
};

TEST_F(Device, RunsAPassWithTheSameBitsAtAnyWidth) {
  const std::vector<float> whole = logits("cuda:0", 0), parts = logits("cuda:0", 3), processor = logits("cpu", 0);
  EXPECT_EQ(whole, parts);
  EXPECT_NE(whole, processor) << "the device has bits of its own";
  double error = 0, size = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    error += (whole[i] - processor[i]) * (whole[i] - processor[i]);
    size += processor[i] * processor[i];
  }
  EXPECT_LT(std::sqrt(error / size), 0.02) << "two bf16 paths";
}

TEST_F(Device, ThatIsNotThereIsADeviceFailureWithTheReason) {
  const std::string folder = fixture("models/qwen3");
  const auto forward = [&](const std::string& device, const std::string& dtype) {
    return std::vector<std::string>{"forward", "--model", folder,     "--rows", folder + "/rows_causal.json", "--out", path("no"),
                                    "--dtype", dtype,     "--device", device};
  };
  refused(forward("cuda:7", "bf16"), 5, "device");
  refused(forward("cuda:0", "int8"), 4, "bf16");
  refused(forward("tpu:0", "bf16"), 2, "tpu:0");
  refused(forward("cuda:x", "bf16"), 2, "cuda:x");
  write("libslipstream_cuda.so", "not a library");
  setenv("SLIPSTREAM_PLUGINS", fs::path(path("libslipstream_cuda.so")).parent_path().c_str(), 1);
  const Ran ran = run(forward("cuda:99", "bf16"));
  EXPECT_EQ(ran.code, 5) << ran.err;
}

}  // namespace
}  // namespace slip::test
