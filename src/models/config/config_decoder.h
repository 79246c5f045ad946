// SPDX-License-Identifier: Apache-2.0
// The decoder's part of config.json: sizes, biases, rotary positions, windows; and the keys that would change the numbers in
// a way that is not done, each refused by name.
#pragma once
#include "models/config/config_reader.h"
#include "models/config/families.h"
#include "nn/decoder.h"

namespace slip {

inline constexpr int64_t kMaxConfigWidth =
    1 << 17;  // 8 times the widest open decoder (16,384, Llama 3.1 405B); larger is a broken file

/// `text`: the text_config, or all of a flat file. Everything but tied_head and rule.
Result<DecoderOptions> read_decoder(const Keys& text, const ConfigClass& defaults, int32_t& max_positions);
/// quant_method of the file's quantization_config ("fp8"), empty without one; kUnsupported for other methods, by name.
Result<std::string> read_quantization(const Keys& keys);
/// kUnsupported for heads wider than the kernels take: the attention kernels' limit is no fault of the file.
Status check_head_width(std::string_view where, std::string_view key, int64_t width);

}  // namespace slip
