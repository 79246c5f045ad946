// SPDX-License-Identifier: Apache-2.0
// `--device`: a plug-in over an emulated device stands where a machine's own would, found through SLIPSTREAM_PLUGINS.
#include <cmath>
#include <cstdlib>

#include "core/safetensors.h"
#include "tests/cli/process.h"

namespace slip::test {
namespace {

class Device : public Cli {
 protected:
  Device() { setenv("SLIPSTREAM_PLUGINS", SLIP_EMULATED_PLUGINS, 1); }
  ~Device() override { unsetenv("SLIPSTREAM_PLUGINS"); }

  std::vector<float> logits(const std::string& device, int split, const std::string& type) {
    const std::string folder = fixture("models/qwen3"), out = path("logits.safetensors");
    const json::value said = run_json({"forward", "--model", folder, "--rows", folder + "/rows_tree.json", "--out", out, "--dtype",
                                       type, "--device", device, "--split", std::to_string(split)});
    EXPECT_GT(said.at("rows").as_int64(), 0);
    const auto file = Checkpoint::open_file(out);
    EXPECT_TRUE(file) << file.error().message;
    return read_as_f32(*file->find("logits_TV"));
  }
};

TEST_F(Device, RunsAPassWithTheSameBitsAtAnyWidth) {
  for (const std::string type : {"bf16", "int8", "int4"}) {
    const std::vector<float> whole = logits("cuda:0", 0, type), parts = logits("cuda:0", 3, type),
                             processor = logits("cpu", 0, type);
    EXPECT_EQ(whole, parts) << type;
    EXPECT_NE(whole, processor) << "the device has bits of its own";
    double error = 0, size = 0;
    for (size_t i = 0; i < whole.size(); ++i) {
      error += (whole[i] - processor[i]) * (whole[i] - processor[i]);
      size += processor[i] * processor[i];
    }
    // Beside integers the processor rounds activations to eight bits, a device to bf16.
    EXPECT_LT(std::sqrt(error / size), type == "bf16" ? 0.02 : 0.05) << "two paths of the same weights, " << type;
  }
}

TEST_F(Device, IsMeasuredBesideItsOwnCeilings) {
  const Ran ran = run({"bench", "forward", "--model", fixture("models/qwen3"), "--dtype", "bf16", "--device", "cuda:0", "--widths",
                       "1,3", "--keys", "5", "--seconds", "0.01", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::istringstream lines(ran.out);
  std::string text;
  std::vector<json::value> found;
  while (std::getline(lines, text)) found.push_back(json::parse(text));
  ASSERT_EQ(found.size(), 2u);
  for (const json::value& line : found) {
    EXPECT_EQ(line.at("device_name").as_string(), "emulated");
    for (const char* key : {"ms", "min_ms", "read_gbps", "dot_gops", "floor_ms"}) EXPECT_GT(line.at(key).as_double(), 0) << key;
    ASSERT_EQ(missing_keys(line, {"rows", "type", "ms", "read_gbps", "dot_gops", "ceiling_ms", "share", "bound", "fork_join_ns"}),
              "");
    EXPECT_EQ(line.at("ceiling_ms"), line.at("floor_ms"));
    EXPECT_NEAR(line.at("share").as_double(), line.at("ceiling_ms").as_double() / line.at("ms").as_double(), 1e-12);
    EXPECT_TRUE(line.at("fork_join_ns").is_null());
    EXPECT_NEAR(line.at("over_floor").as_double(), line.at("ms").as_double() / line.at("floor_ms").as_double(), 1e-9);
  }
  EXPECT_EQ(found[1].at("rows").as_int64(), 3);
  const Ran of_int8 = run({"bench", "forward", "--model", fixture("models/qwen3"), "--dtype", "int8", "--device", "cuda:0",
                           "--widths", "1", "--keys", "5", "--seconds", "0.01", "--json"});
  ASSERT_EQ(of_int8.code, 0) << of_int8.err;
  const json::value bytes_line = json::parse(of_int8.out);
  // Qwen3's fixture, two bytes a weight, or one: layers x (q, k, v, o, gate, up, down) and the head.
  const json::value config = json::parse(*read_file(fixture("models/qwen3") + "/config.json"));
  const auto of = [&](const char* key) { return static_cast<double>(config.at(key).as_int64()); };
  const double width = of("hidden_size"), q = of("num_attention_heads") * of("head_dim"),
               kv = of("num_key_value_heads") * of("head_dim");
  const double layer = width * (2 * q + 2 * kv) + 3 * width * of("intermediate_size");
  const double bytes = 2 * (of("num_hidden_layers") * layer + width * of("vocab_size"));
  EXPECT_NEAR(found[0].at("memory_ms").as_double() * found[0].at("read_gbps").as_double() * 1e6, bytes, 1e-6 * bytes);
  EXPECT_NEAR(bytes_line.at("memory_ms").as_double() * bytes_line.at("read_gbps").as_double() * 1e6, bytes / 2, 1e-6 * bytes);
}

TEST_F(Device, ThatIsNotThereIsADeviceFailureWithTheReason) {
  const std::string folder = fixture("models/qwen3");
  const auto forward = [&](const std::string& device, const std::string& dtype) {
    return std::vector<std::string>{"forward", "--model", folder,     "--rows", folder + "/rows_causal.json", "--out", path("no"),
                                    "--dtype", dtype,     "--device", device};
  };
  refused(forward("cuda:7", "bf16"), 5, "device");
  refused(forward("cuda:0", "f32"), 4, "expected bf16, int8 or int4 weights (--dtype bf16), got f32");
  refused(forward("tpu:0", "bf16"), 2, "tpu:0");
  refused(forward("cuda:x", "bf16"), 2, "cuda:x");
  write("libslipstream_cuda.so", "not a library");
  setenv("SLIPSTREAM_PLUGINS", fs::path(path("libslipstream_cuda.so")).parent_path().c_str(), 1);
  const Ran ran = run(forward("cuda:99", "bf16"));
  EXPECT_EQ(ran.code, 5) << ran.err;
  EXPECT_THAT(ran.err, testing::HasSubstr(path("libslipstream_cuda.so"))) << "that file, and none that lies elsewhere";
}

}  // namespace
}  // namespace slip::test
