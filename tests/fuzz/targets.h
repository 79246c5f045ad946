// SPDX-License-Identifier: Apache-2.0
// The table of targets; one pair of functions each, by the folder that they belong to.
#pragma once
#include "fuzz/target.h"

namespace slip::fuzz {

#define SLIP_FUZZ_TARGET(name)  \
  void run_##name(Bytes bytes); \
  std::vector<std::string> seeds_##name();
// weights_targets.cc
SLIP_FUZZ_TARGET(safetensors)
SLIP_FUZZ_TARGET(index)
SLIP_FUZZ_TARGET(torch)
SLIP_FUZZ_TARGET(pickle)
// text_targets.cc
SLIP_FUZZ_TARGET(tokenizer)
SLIP_FUZZ_TARGET(text)
SLIP_FUZZ_TARGET(chat)
// image_targets.cc
SLIP_FUZZ_TARGET(png)
SLIP_FUZZ_TARGET(jpeg)
SLIP_FUZZ_TARGET(webp)
SLIP_FUZZ_TARGET(ppm)
// model_targets.cc
SLIP_FUZZ_TARGET(config)
SLIP_FUZZ_TARGET(preprocessor)
SLIP_FUZZ_TARGET(adapter)
SLIP_FUZZ_TARGET(rows)
SLIP_FUZZ_TARGET(packed)
// schema_targets.cc
SLIP_FUZZ_TARGET(form)
SLIP_FUZZ_TARGET(answer)
// form_targets.cc
SLIP_FUZZ_TARGET(previous)
SLIP_FUZZ_TARGET(width)
SLIP_FUZZ_TARGET(pilot)
// request_targets.cc
SLIP_FUZZ_TARGET(request)
// server_targets.cc
SLIP_FUZZ_TARGET(completion)
SLIP_FUZZ_TARGET(observation)
SLIP_FUZZ_TARGET(image_url)
SLIP_FUZZ_TARGET(event)
// record_targets.cc
SLIP_FUZZ_TARGET(shard)
SLIP_FUZZ_TARGET(record_index)
SLIP_FUZZ_TARGET(ego)
SLIP_FUZZ_TARGET(codebook)
// import_targets.cc
SLIP_FUZZ_TARGET(tfrecord)
SLIP_FUZZ_TARGET(mcap)
SLIP_FUZZ_TARGET(conversation)
SLIP_FUZZ_TARGET(conversation_set)
SLIP_FUZZ_TARGET(robot_steps)
SLIP_FUZZ_TARGET(npy)
SLIP_FUZZ_TARGET(nuscenes)
// drive_targets.cc
SLIP_FUZZ_TARGET(latency)
SLIP_FUZZ_TARGET(lines)
#undef SLIP_FUZZ_TARGET

#define SLIP_FUZZ_TARGET(name, shape) \
  { #name, Shape::shape, run_##name, seeds_##name }
// clang-format off
inline constexpr Target kTargets[] = {
    SLIP_FUZZ_TARGET(adapter, kJson),
    SLIP_FUZZ_TARGET(answer, kJson),
    SLIP_FUZZ_TARGET(chat, kBytes),
    SLIP_FUZZ_TARGET(codebook, kJson),
    SLIP_FUZZ_TARGET(completion, kJson),
    SLIP_FUZZ_TARGET(config, kJson),
    SLIP_FUZZ_TARGET(conversation, kBytes),
    SLIP_FUZZ_TARGET(conversation_set, kBytes),
    SLIP_FUZZ_TARGET(ego, kJson),
    SLIP_FUZZ_TARGET(event, kBytes),
    SLIP_FUZZ_TARGET(form, kJson),
    SLIP_FUZZ_TARGET(image_url, kBytes),
    SLIP_FUZZ_TARGET(index, kJson),
    SLIP_FUZZ_TARGET(jpeg, kBytes),
    SLIP_FUZZ_TARGET(mcap, kBytes),
    SLIP_FUZZ_TARGET(npy, kBytes),
    SLIP_FUZZ_TARGET(nuscenes, kJson),
    SLIP_FUZZ_TARGET(observation, kBytes),
    SLIP_FUZZ_TARGET(packed, kJson),
    SLIP_FUZZ_TARGET(pickle, kBytes),
    SLIP_FUZZ_TARGET(pilot, kSafetensors),
    SLIP_FUZZ_TARGET(png, kBytes),
    SLIP_FUZZ_TARGET(ppm, kBytes),
    SLIP_FUZZ_TARGET(preprocessor, kJson),
    SLIP_FUZZ_TARGET(previous, kJson),
    SLIP_FUZZ_TARGET(record_index, kJson),
    SLIP_FUZZ_TARGET(request, kJson),
    SLIP_FUZZ_TARGET(robot_steps, kBytes),
    SLIP_FUZZ_TARGET(rows, kJson),
    SLIP_FUZZ_TARGET(safetensors, kSafetensors),
    SLIP_FUZZ_TARGET(shard, kBytes),
    SLIP_FUZZ_TARGET(text, kBytes),
    SLIP_FUZZ_TARGET(tfrecord, kBytes),
    SLIP_FUZZ_TARGET(tokenizer, kJson),
    SLIP_FUZZ_TARGET(torch, kBytes),
    SLIP_FUZZ_TARGET(webp, kBytes),
    SLIP_FUZZ_TARGET(width, kJson),
    SLIP_FUZZ_TARGET(latency, kJson),
    SLIP_FUZZ_TARGET(lines, kJson),
};
// clang-format on
#undef SLIP_FUZZ_TARGET

/// A constant, so that a program of one target links that target alone.
consteval Target target_named(std::string_view name) {
  for (const Target& t : kTargets) {
    if (t.name == name) return t;
  }
  throw "the table has no such target";
}

}  // namespace slip::fuzz
