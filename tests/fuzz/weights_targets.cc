// SPDX-License-Identifier: Apache-2.0
// Weight files: one safetensors file, the index of a folder with shards, torch's archives and the pickles in them.
#include "core/pickle.h"
#include "core/safetensors.h"
#include "core/torch_zip.h"
#include "fuzz/targets.h"

namespace slip::fuzz {

namespace {

/// What was accepted can be read, and says itself how much it is.
void read_all(const Checkpoint& c) {
  for (const auto& [name, t] : c.tensors()) {
    require(t.bytes.size() == static_cast<size_t>(t.elements()) * size_of(t.dtype), "a tensor has the bytes of its shape");
    require(read_as_f32(t).size() == static_cast<size_t>(t.elements()), "a tensor is read whole");
    all_finite(t);
    const auto again = c.get(name, t.shape);
    require(static_cast<bool>(again), "a tensor is found by its name and shape");
  }
}

}  // namespace

void run_safetensors(Bytes bytes) {
  put("model.safetensors", text_of(bytes));
  const auto c = Checkpoint::open_file(scratch() / "model.safetensors");
  if (!c) return require_refusal(c.error());
  read_all(*c);
}

std::vector<std::string> seeds_safetensors() {
  return {
      safetensors_file("{}", 0),
      safetensors_file(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                       R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})",
                       22),
      safetensors_file(
          R"({"s":{"dtype":"F8_E4M3","shape":[2,4],"data_offsets":[0,8]},"scale":{"dtype":"F32","shape":[],"data_offsets":[8,12]},)"
          R"("empty":{"dtype":"I64","shape":[0,7],"data_offsets":[12,12],"x":{"y":[1,{"z":null}]}},)"
          R"("e5":{"dtype":"F8_E5M2","shape":[4],"data_offsets":[12,16]}})",
          16),
      safetensors_file(
          R"({"d":{"shape":[1],"dtype":"F64","data_offsets":[0,8]},"i":{"dtype":"I8","shape":[1,1,1],"data_offsets":[8,9]},)"
          R"("u":{"dtype":"BOOL","shape":[3],"data_offsets":[9,12]},"h":{"dtype":"F16","shape":[2],"data_offsets":[12,16]}}   )",
          16),
  };
}

void run_index(Bytes bytes) {
  static const bool once = [] {
    put("s-1.safetensors", seeds_safetensors()[1]);
    put("s-2.safetensors", seeds_safetensors()[2]);
    return true;
  }();
  require(once, "the shards are there");
  put("model.safetensors.index.json", text_of(bytes));
  const auto c = Checkpoint::open_folder(scratch());
  if (!c) return require_refusal(c.error());
  read_all(*c);
}

std::vector<std::string> seeds_index() {
  return {R"({"metadata":{"total_size":38},"weight_map":{"a":"s-1.safetensors","b":"s-1.safetensors","s":"s-2.safetensors"}})",
          R"({"weight_map":{}})", R"({"weight_map":{"e5":"s-2.safetensors","a":"../s-1.safetensors"}})",
          R"({"weight_map":{"a":"s-3.safetensors","b":7,"c":null}})"};
}

void run_torch(Bytes bytes) {
  put("model.pt", text_of(bytes));
  const auto file = TorchFile::open(scratch() / "model.pt");
  if (!file) return require_refusal(file.error());
  for (const TorchFile::Entry& e : file->tensors()) {
    require(e.view.bytes.size() == static_cast<size_t>(e.view.elements()) * size_of(e.view.dtype),
            "a tensor has the bytes of its shape");
    require(read_as_f32(e.view).size() == static_cast<size_t>(e.view.elements()), "a tensor is read whole");
  }
}

std::vector<std::string> seeds_torch() { return fixtures_in("torch", ".pt"); }

void run_pickle(Bytes bytes) {
  const auto objects = read_pickle(bytes, "data.pkl");
  if (!objects) return require_refusal(objects.error());
  const auto count = static_cast<int32_t>(objects->nodes.size());
  require(objects->root >= 0 && objects->root < count, "the root is an object");
  for (const PickleNode& n : objects->nodes) {
    for (const int32_t i : n.items) require(i >= 0 && i < count, "references are objects");
    if (n.kind == PickleNode::Kind::kDict) require(n.items.size() % 2 == 0, "a dict has a value for each key");
  }
}

std::vector<std::string> seeds_pickle() {
  std::vector<std::string> out;
  for (const std::string& file : fixtures_in("torch", ".pt")) {
    const auto entries = read_zip(std::as_bytes(std::span(file)), "seed");
    if (!entries) {
      out.push_back(file);  // the format before torch 1.6 is pickles one behind the other
      continue;
    }
    for (const auto& [name, bytes] : *entries) {
      if (name.ends_with(".pkl")) out.emplace_back(text_of(bytes));
    }
  }
  return out;
}

}  // namespace slip::fuzz
