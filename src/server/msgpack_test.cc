// SPDX-License-Identifier: Apache-2.0
// MessagePack as Python's msgpack writes it, and openpi's arrays.
#include "server/msgpack.h"

#include <gtest/gtest.h>

namespace slip::server {
namespace {

Packed map_of(std::string key, Packed value) { return {PackedMap{{{std::move(key)}, std::move(value)}}}; }

TEST(MessagePack, ReadsWhatPythonsWriterWrites) {
  // msgpack.packb({"a": [1, -1, 200, 70000, -70000, 1.5, None, True, b"xy"], b"k": "v"})
  const std::string bytes(
      "\x82\xa1\x61\x99\x01\xff\xcc\xc8\xce\x00\x01\x11\x70\xd2\xff\xfe\xee\x90\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00\xc0\xc3\xc4\x02"
      "xy\xc4\x01k\xa1v",
      38);
  const auto in = unpack(bytes);
  ASSERT_TRUE(in) << in.error().message;
  const auto& list = std::get<PackedArray>(in->find("a")->value);
  ASSERT_EQ(list.size(), 9U);
  EXPECT_EQ(std::get<int64_t>(list[1].value), -1);
  EXPECT_EQ(std::get<int64_t>(list[2].value), 200);
  EXPECT_EQ(std::get<int64_t>(list[3].value), 70000);
  EXPECT_EQ(std::get<int64_t>(list[4].value), -70000);
  EXPECT_EQ(std::get<double>(list[5].value), 1.5);
  EXPECT_EQ(std::get<Bytes>(list[8].value).data, "xy");
  EXPECT_EQ(*in->find("k")->text(), "v");
}

TEST(MessagePack, WhatIsWrittenIsReadAgain) {
  PackedArray list;
  for (const int64_t n : {int64_t{0}, int64_t{127}, int64_t{128}, int64_t{-32}, int64_t{-33}, INT64_MIN, INT64_MAX})
    list.push_back({n});
  for (const size_t n : {0U, 31U, 32U, 255U, 256U, 70000U}) {
    list.push_back({std::string(n, 'x')});
    list.push_back({Bytes{std::string(n, 'y')}});
  }
  for (int i = 0; i < 20; ++i) list.push_back(map_of("k", {0.25 * i}));
  const Packed value{std::move(list)};
  const std::string bytes = pack(value);
  const auto back = unpack(bytes);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(pack(*back), bytes);
  for (size_t n = 0; n < 2000; ++n) EXPECT_FALSE(unpack(bytes.substr(0, n))) << "it ends early";
  EXPECT_FALSE(unpack(bytes + "x"));
}

TEST(MessagePack, BadBytesAreRefused) {
  EXPECT_FALSE(unpack(std::string("\xdd\xff\xff\xff\xff", 5))) << "more elements than bytes";
  EXPECT_FALSE(unpack(std::string(100, '\x91'))) << "nested deeper than 32";
  EXPECT_FALSE(unpack(std::string("\xd4\x01\x00", 3))) << "an extension";
}

TEST(MessagePack, ManySmallValuesAreRefusedBeforeTheyTakeMemory) {
  const auto list_of = [](uint32_t n) {
    std::string bytes = "\xdd";
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(n >> shift));
    return bytes + std::string(n, '\x01');
  };
  EXPECT_TRUE(unpack(list_of(65535)));  // with the list itself 65,536
  const auto many = unpack(list_of(65536));
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().message, "msgpack: expected at most 65536 values, got more");
}

TEST(OpenpiArrays, HaveTheirShapesBytes) {
  const Packed a = ndarray_f32({1, 2, 3, 4, 5, 6}, {3, 2});
  const auto back = unpack(pack(a));
  ASSERT_TRUE(back);
  const auto array = ndarray_of(*back, "actions");
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(array->shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(array->numbers(), 6);
  Packed wrong = a;
  std::get<PackedMap>(wrong.value)[3].second = {PackedArray{{int64_t{4}}, {int64_t{2}}}};
  EXPECT_FALSE(ndarray_of(wrong, "actions"));
}

}  // namespace
}  // namespace slip::server
