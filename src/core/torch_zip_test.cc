// SPDX-License-Identifier: Apache-2.0
// torch.save's files: every tensor bit for bit as torch wrote it, and hostile archives and pickles, which are errors and nothing
// else.
#include "core/torch_zip.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <optional>

#include "core/pickle.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kFolder = fs::path(SLIP_FIXTURES) / "torch";

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class TorchZip : public ::testing::Test {
 protected:
  ~TorchZip() override {
    std::error_code ec;
    fs::remove(file_, ec);
  }
  Result<TorchFile> open(const std::string& bytes) {
    std::ofstream(file_, std::ios::binary) << bytes;
    return TorchFile::open(file_);
  }
  ErrorKind refusal(const std::string& bytes, std::string_view named = "") {
    const auto opened = open(bytes);
    EXPECT_FALSE(opened);
    if (opened) return ErrorKind::kInternal;
    EXPECT_NE(opened.error().message.find(named), std::string::npos) << opened.error().message;
    return opened.error().kind;
  }
  fs::path file_ = fs::temp_directory_path() / fmt::format("torch_zip_{}.pt", ::getpid());
};

TEST_F(TorchZip, EveryTensorIsWhatTorchWroteBitForBit) {
  const auto file = TorchFile::open(kFolder / "tensors.pt");
  ASSERT_TRUE(file) << file.error().message;
  const auto expected = Checkpoint::open_file(kFolder / "tensors.safetensors");
  ASSERT_TRUE(expected) << expected.error().message;
  EXPECT_EQ(file->tensors().size(), expected->tensors().size());
  for (const TorchFile::Entry& e : file->tensors()) {
    const TensorView* view = expected->find(e.view.name);
    ASSERT_NE(view, nullptr) << e.view.name;
    EXPECT_EQ(view->dtype, e.view.dtype) << e.view.name;
    EXPECT_EQ(view->shape, e.view.shape) << e.view.name;
    ASSERT_EQ(view->bytes.size(), e.view.bytes.size()) << e.view.name;
    if (!view->bytes.empty()) {
      EXPECT_EQ(std::memcmp(view->bytes.data(), e.view.bytes.data(), view->bytes.size()), 0) << e.view.name;
    }
  }
}

TEST_F(TorchZip, TheOlderFormatIsRefusedWithTheReason) {
  const auto file = TorchFile::open(kFolder / "legacy.pt");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(file.error().message.find("torch 1.6"), std::string::npos);
  EXPECT_EQ(refusal("not a checkpoint"), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(""), ErrorKind::kBadInput);
}

TEST_F(TorchZip, EveryTruncationIsAnError) {
  const std::string whole = bytes_of(kFolder / "tensors.pt");
  ASSERT_TRUE(open(whole));
  for (size_t n = 0; n < whole.size(); n += n < 64 || n + 400 > whole.size() ? 1 : 13) {
    const auto cut = open(whole.substr(0, n));
    ASSERT_FALSE(cut) << n;
    EXPECT_EQ(cut.error().kind, ErrorKind::kBadInput) << n;
  }
}

TEST_F(TorchZip, EveryDamagedByteIsAnErrorOrAnAnswer) {
  const std::string whole = bytes_of(kFolder / "tensors.pt");
  for (size_t at = 0; at < whole.size(); at += 11) {
    for (const char flip : {'\x01', '\x80'}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      const auto opened = open(damaged);
      if (!opened) {
        EXPECT_TRUE(opened.error().kind == ErrorKind::kBadInput || opened.error().kind == ErrorKind::kUnsupported);
        continue;
      }
      for (const auto& e : opened->tensors()) {  // every byte of an answer is there
        size_t sum = 0;
        for (const std::byte b : e.view.bytes) sum += std::to_integer<size_t>(b);
        EXPECT_GE(sum, 0u);
      }
    }
  }
}

// ---- archives and pickles made here ----

std::string le(uint64_t v, int n) {
  std::string s;
  for (int i = 0; i < n; ++i) s += static_cast<char>(v >> (8 * i));
  return s;
}

struct ZipOptions {
  uint64_t method = 0, flags = 0;
  std::optional<uint64_t> size, local, entries, offset;  // what the directory says instead of the truth
};

std::string zip(const std::vector<std::pair<std::string, std::string>>& files, const ZipOptions& o = {}) {
  std::string out, directory;
  for (const auto& [name, data] : files) {
    const std::string at = le(o.local.value_or(out.size()), 4), size = le(o.size.value_or(data.size()), 4);
    const std::string both = le(20, 2) + le(o.flags, 2) + le(o.method, 2) + le(0, 8) + size + size + le(name.size(), 2);
    directory += le(0x02014b50, 4) + le(20, 2) + both + le(0, 2) + le(0, 2) + le(0, 4) + le(0, 4) + at + name;
    out += le(0x04034b50, 4) + both + le(0, 2) + name + data;
  }
  const uint64_t n = o.entries.value_or(files.size());
  const std::string end = le(0x06054b50, 4) + le(0, 4) + le(n, 2) + le(n, 2) + le(directory.size(), 4) +
                          le(o.offset.value_or(out.size()), 4) + le(0, 2);
  return out + directory + end;
}

// Pickle pieces of protocol 2.
std::string text(const std::string& s) { return std::string("X") + le(s.size(), 4) + s; }
std::string integer(int64_t v) { return std::string("\x8a\x08") + le(static_cast<uint64_t>(v), 8); }
std::string global(const std::string& module, const std::string& name) { return "c" + module + "\n" + name + "\n"; }
std::string storage(int64_t elements, const std::string& type = "FloatStorage", const std::string& key = "0") {
  return std::string("(") + text("storage") + global("torch", type) + text(key) + text("cpu") + integer(elements) + "tQ";
}
std::string tuple(const std::vector<int64_t>& v) {
  std::string s = "(";
  for (const int64_t x : v) s += integer(x);
  return s + "t";
}
std::string tensor_of(const std::string& from, int64_t offset, const std::vector<int64_t>& sizes,
                      const std::vector<int64_t>& strides) {
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + from + integer(offset) + tuple(sizes) + tuple(strides) + "\x89" +
         global("collections", "OrderedDict") + ")RtR";
}
std::string pickled(const std::string& body) { return "\x80\x02" + body + "."; }
std::string archive(const std::string& pickle, const ZipOptions& o = {}) {
  return zip({{"a/data.pkl", pickle}, {"a/data/0", std::string(24, 'x')}}, o);
}
std::string dict(const std::string& key, const std::string& value) { return std::string("}") + text(key) + value + "s"; }

TEST_F(TorchZip, PiecesMadeHereAreReadWhereTheyAreRight) {
  const auto file = open(archive(pickled(dict("w", tensor_of(storage(6), 1, {2, 2}, {2, 1})))));
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 1u);
  EXPECT_EQ(file->tensors()[0].path, std::vector<std::string>{"w"});
  EXPECT_EQ(file->tensors()[0].view.bytes.size(), 16u);
}

TEST_F(TorchZip, NothingButTensorsIsBuilt) {
  const auto refused = [&](const std::string& body, std::string_view named) {
    EXPECT_EQ(refusal(archive(pickled(body)), named), ErrorKind::kBadInput);
  };
  refused(global("os", "system") + std::string("(") + text("touch /tmp/owned") + "tR", "os.system");
  refused(text("os") + text("system") + "\x93", "os.system");
  refused(global("builtins", "eval"), "builtins.eval");
  refused(global("torch", "load"), "torch.load");
  refused(global("torch._utils", "_rebuild_parameter"), "_rebuild_parameter");
  refused(global("torch", "FloatStorage") + ")R", "FloatStorage");
  refused(
      "i"
      "os\nsystem\n",
      "opcode");                          // INST
  refused("}\x81", "opcode");             // NEWOBJ
  refused(text("x") + "P0\n", "opcode");  // PERSID
  refused("\x82\x01", "opcode");          // EXT1
  refused("\x97", "opcode");              // NEXT_BUFFER
  refused(std::string("}") + text("a") + "b", "attributes");
  refused("\xfe", "opcode");
}

TEST_F(TorchZip, PicklesThatDoNotFitAreErrors) {
  const auto refused = [&](const std::string& pickle, std::string_view named = "") {
    EXPECT_EQ(refusal(archive(pickle), named), ErrorKind::kBadInput);
  };
  refused("", "more bytes");
  refused("\x80\x02", "more bytes");
  refused(pickled(""), "on the stack");
  refused(pickled("NN"), "one object");
  refused(pickled("("), "on the stack");
  refused(pickled("t"), "mark");
  refused(pickled("\x87"), "on the stack");
  refused(pickled("(N\x85"), "");
  refused(pickled("h\x05"), "remembered");
  refused(pickled("j\xff\xff\xff\xff"), "remembered");
  refused(pickled("X\xff\xff\xff\x7f"), "text");
  refused(pickled(std::string("\x8a\x09") + std::string(9, '\1')), "8 bytes");
  refused(pickled("]N"
                  "s"),
          "");
  refused(pickled("}Nu"), "mark");
  refused(pickled("}(Nu"), "pairs");
  refused("\x80\x01N.", "protocol");
  refused(pickled("NQ"), "persistent id");
  refused(pickled(")Q"), "persistent id");
  refused(pickled(std::string("c") + std::string(1000, 'a')), "line");
}

TEST_F(TorchZip, CyclesAndSharingEndInAnError) {
  // d = {}; d["d"] = d
  EXPECT_EQ(refusal(archive(pickled(std::string("}q\x01") + text("d") + "h\x01s")), "nested"), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(archive(pickled("]q\x01h\x01"
                                    "a")),
                    "nested"),
            ErrorKind::kBadInput);
  // 30 lists, each of which holds the one before eight times: 8^30 ways to the innermost.
  std::string bomb = std::string("]q") + le(0, 1);
  for (int i = 1; i <= 30; ++i) {
    std::string again;
    for (int k = 0; k < 8; ++k) again += std::string("h") + le(static_cast<uint64_t>(i - 1), 1);
    bomb += "](" + again + "eq" + le(static_cast<uint64_t>(i), 1);
  }
  EXPECT_EQ(refusal(archive("\x80\x02"
                            "(" +
                            bomb + "t."),
                    "objects in all places"),
            ErrorKind::kBadInput);
}

TEST_F(TorchZip, KeysThatWouldBeCopiedAgainAndAgainAreBounded) {
  EXPECT_EQ(refusal(archive(pickled(dict(std::string(5000, 'k'), tensor_of(storage(6), 0, {2}, {1})))), "4096"),
            ErrorKind::kBadInput);
}

TEST_F(TorchZip, SharedDictsUnderLongKeysAreBoundedByTheBytesOfAllNames) {
  // A tensor in 10 dicts, each of which holds the one before twice, under keys of 4,080 bytes: 80 KB of keys, 1,024 names of 41 KB.
  std::string body = tensor_of(storage(6), 0, {2}, {1}) + "q" + le(0, 1);
  for (int i = 1; i <= 10; ++i) {
    const std::string inner = std::string("h") + le(static_cast<uint64_t>(i - 1), 1);
    body += std::string("}") + "(" + text(std::string(4080, 'k')) + inner + text(std::string(4080, 'l')) + inner + "uq" +
            le(static_cast<uint64_t>(i), 1);
  }
  EXPECT_EQ(refusal(archive(pickled("(" + body + "t")), "67108864 bytes of tensors' names"), ErrorKind::kBadInput);
}

TEST_F(TorchZip, TensorsBeyondTheirStorageAreErrors) {
  const auto refused = [&](const std::string& tensor, std::string_view named) {
    EXPECT_EQ(refusal(archive(pickled(dict("w", tensor))), named), ErrorKind::kBadInput);
  };
  refused(tensor_of(storage(7), 0, {7}, {1}), "got 24 bytes");
  refused(tensor_of(storage(int64_t{1} << 62), 0, {1}, {1}), "24 bytes");
  refused(tensor_of(storage(6), 0, {7}, {1}), "beyond");
  refused(tensor_of(storage(6), 4, {3}, {1}), "beyond");
  refused(tensor_of(storage(6), -1, {3}, {1}), "offset");
  refused(tensor_of(storage(6), 0, {-1}, {1}), "sizes");
  refused(tensor_of(storage(6), 0, {3}, {-1}), "sizes");
  refused(tensor_of(storage(6), 0, {2, 2}, {1}), "strides");
  refused(tensor_of(storage(6), 0, {int64_t{1} << 40, int64_t{1} << 40}, {0, 0}), "elements");
  refused(tensor_of(storage(6), 0, {int64_t{1} << 39}, {0}), "in order of storage");
  refused(tensor_of(storage(6), 0, {2, 2}, {int64_t{1} << 40, int64_t{1} << 40}), "beyond");
  refused(tensor_of(storage(6, "FloatStorage", "1"), 0, {3}, {1}), "data/1");
  refused(tensor_of("N", 0, {3}, {1}), "storage");
  refused(global("torch._utils", "_rebuild_tensor_v2") + ")R", "arguments");
}

TEST_F(TorchZip, ArchivesThatLieAreErrors) {
  const std::string pickle = pickled("}");
  ASSERT_TRUE(open(archive(pickle)));
  EXPECT_EQ(refusal(archive(pickle, {.size = 0xfffffff0}), "bytes at"), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(archive(pickle, {.size = 0xffffffff}), "zip64"), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(archive(pickle, {.local = 0x7fffffff}), "header"), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(archive(pickle, {.entries = 9}), "directory entry"), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(archive(pickle, {.offset = 0xfffffffe}), "directory entry"), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(archive(pickle, {.method = 8}), "compression"), ErrorKind::kUnsupported);
  EXPECT_EQ(refusal(archive(pickle, {.flags = 1}), "encrypted"), ErrorKind::kUnsupported);
  EXPECT_EQ(refusal(zip({{"a/other", "x"}}), "data.pkl"), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(zip({{"a/data.pkl", pickle}, {"b/data.pkl", pickle}}), "two"), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(zip({{"a/data.pkl", pickle}, {"a/data.pkl", pickle}}), "two"), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(zip({{"a/data.pkl", pickle}, {"a/byteorder", "big"}}), "byte order"), ErrorKind::kUnsupported);
  EXPECT_EQ(refusal(zip({{"a/data.pkl", pickle}, {"a/constants.pkl", ""}}), "TorchScript"), ErrorKind::kUnsupported);
}

TEST_F(TorchZip, Zip64DirectoriesAreRead) {
  // One entry whose sizes and offset stand in the extra field, behind a zip64 end record and locator.
  const std::string data = pickled("}"), name = "a/data.pkl", full = le(0xffffffff, 4);
  const std::string local = le(0x04034b50, 4) + le(45, 2) + le(0, 4) + le(0, 8) + full + full + le(name.size(), 2) + le(20, 2) +
                            name + le(1, 2) + le(16, 2) + le(data.size(), 8) + le(data.size(), 8) + data;
  const std::string extra = le(1, 2) + le(24, 2) + le(data.size(), 8) + le(data.size(), 8) + le(0, 8);
  const std::string central = le(0x02014b50, 4) + le(45, 2) + le(45, 2) + le(0, 4) + le(0, 8) + full + full + le(name.size(), 2) +
                              le(extra.size(), 2) + le(0, 2) + le(0, 4) + le(0, 4) + full + name + extra;
  const std::string end64 = le(0x06064b50, 4) + le(44, 8) + le(45, 2) + le(45, 2) + le(0, 8) + le(1, 8) + le(1, 8) +
                            le(central.size(), 8) + le(local.size(), 8);
  const std::string locator = le(0x07064b50, 4) + le(0, 4) + le(local.size() + central.size(), 8) + le(1, 4);
  const std::string end = le(0x06054b50, 4) + le(0, 4) + le(0xffff, 2) + le(0xffff, 2) + full + full + le(0, 2);
  const auto opened = open(local + central + end64 + locator + end);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_TRUE(opened->tensors().empty());
}

}  // namespace
}  // namespace slip
