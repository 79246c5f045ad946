// SPDX-License-Identifier: Apache-2.0
// Samples of record sets and of simulated scenes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/must_testing.h"
#include "sim/record.h"
#include "sim/record/make.h"
#include "sim/record/shards.h"
#include "text/tokenizer.h"
#include "train/data/grounding.h"
#include "train/data/source.h"
#include "train/objective/graph_objective.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

// A set of records without pictures, and the demonstration model's configuration with one key changed.
class RecordSource : public testing::Test {
 protected:
  RecordSource() {
    auto w = must(sim::RecordSetWriter::create(set_.path, 7, 5, {}));
    for (uint64_t seed = 7; seed < 12; ++seed) EXPECT_TRUE(w.add(must(sim::make_record(seed, {}, false))));
    EXPECT_TRUE(w.finish());
    fs::copy_file(demo() / "preprocessor_config.json", model_.path / "preprocessor_config.json");
    config_ = must(read_json(demo() / "config.json")).as_object();
    data_ = {{"kind", "records"},
             {"records", set_.path.string()},
             {"model", (model_.path / "config.json").string()},
             {"waypoint_step_m", 0.5}};
  }
  static fs::path demo() { return fs::path(SLIP_SOURCE_DIR) / "configs" / "demo"; }
  Result<std::unique_ptr<SampleSource>> make() {
    EXPECT_TRUE(write_file(model_.path / "config.json", pretty(config_)));
    return make_record_source(data_, demo().string());
  }
  std::string error() {
    const auto source = make();
    if (source) return "no error";
    EXPECT_EQ(source.error().kind, ErrorKind::kBadInput);
    return source.error().message;
  }
  test::TemporaryFolder set_, model_;
  json::object config_, data_;
};

TEST_F(RecordSource, RefusesRecordsWithoutPictures) {
  const auto source = must(make());
  const auto sample = source->get(0);
  ASSERT_FALSE(sample);
  EXPECT_EQ(sample.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(sample.error().message, testing::HasSubstr("shard-00000.slip: expected records with pictures, got none"));
}

TEST_F(RecordSource, RefusesRangesOutsideTheSetWithoutOverflow) {
  data_["first"] = 2, data_["count"] = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(error(), testing::HasSubstr("within the 5 records"));
  data_["first"] = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(error(), testing::HasSubstr("first: expected 0 to 5, got -9223372036854775808"));
  data_ = {{"kind", "simulated"}, {"first_seed", 1}, {"count", int64_t{1} << 32}, {"model", data_["model"]}};
  EXPECT_THAT(error(), testing::HasSubstr("count: expected 3 to 2147483648, got 4294967296"));
}

TEST_F(RecordSource, SeedsOfScenesDoNotWrapAround) {
  data_ = {{"kind", "simulated"}, {"first_seed", -1}, {"count", 5}, {"model", data_["model"]}};
  EXPECT_THAT(error(), testing::HasSubstr("data: first_seed: expected 0 to 4611686018427387904, got -1"));
  data_["first_seed"] = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(error(), testing::HasSubstr("data: first_seed: expected 0 to 4611686018427387904, got 9223372036854775807"));
}

TEST_F(RecordSource, RefusesUnknownKeys) {
  const json::object good = data_;
  data_["onyl"] = "braking";
  EXPECT_THAT(error(), testing::HasSubstr("data: expected a known key, got \"onyl\""));
  data_ = good, data_["waypoints_step_m"] = 0.5;
  EXPECT_THAT(error(), testing::HasSubstr("data: expected a known key, got \"waypoints_step_m\""));
  data_ = good, data_["grounding"] = json::object{{"weigth", 2}};
  EXPECT_THAT(error(), testing::HasSubstr("data: grounding: expected a known key, got \"weigth\""));
  data_ = {{"kind", "simulated"}, {"first_seed", 1}, {"count", 5}, {"model", good.at("model")}, {"records", "r"}};
  EXPECT_THAT(error(), testing::HasSubstr("data: expected a known key, got \"records\"")) << "a key of the other kind";
}

TEST_F(RecordSource, TakesBrakingRecordsAlone) {
  data_["only"] = "braking";
  int sets = 0;
  uint32_t unknown = 0;
  // Speeds now and 5 s on; in between they change evenly.
  const auto error_of = [&](std::initializer_list<std::pair<float, float>> speeds) {
    const fs::path folder = set_.path / std::to_string(sets++);
    auto w = must(sim::RecordSetWriter::create(folder, "made"));
    for (const auto& [now, then] : speeds) {
      sim::Record r = must(sim::make_record(7, {}, false));
      r.labels.v0_mps = now, r.labels.unknown = unknown;
      float x = 0;
      for (size_t i = 0; i < r.labels.future.size(); ++i) {
        const float t = std::min(0.1F * static_cast<float>(i + 1), 5.0F);
        x += 0.1F * (now + (then - now) * t / 5);
        r.labels.future[i].x = x, r.labels.future[i].y = 0;
      }
      EXPECT_TRUE(w.add(r));
    }
    EXPECT_TRUE(w.finish());
    data_["records"] = folder.string();
    return error();
  };
  EXPECT_EQ(error_of({{10, 5}, {10, 10}, {0, 0}, {3, 0}}), "no error") << "two brake, one stands and stays";
  EXPECT_THAT(error_of({{10, 7}, {10, 10}, {0, 4}, {3, 0}, {8, 2}}),
              testing::HasSubstr("only: expected at least 3 records that are braking, got 2"));
  unknown = sim::kImported | sim::kUnknownFuture;
  EXPECT_THAT(error_of({{10, 5}, {10, 5}, {10, 5}}), testing::HasSubstr("got 0")) << "a stand-in for a future does not brake";
  data_["only"] = "turning";
  EXPECT_THAT(error(), testing::HasSubstr("only: expected braking, got turning"));
}

TEST(FutureSteps, AreThoseThatARecordKnows) {
  sim::Labels l;
  for (size_t i = 0; i < l.future.size(); ++i) l.future[i].x = static_cast<float>(i + 1);
  EXPECT_EQ(future_steps(l).size(), 3 * l.future.size());
  l.unknown = sim::kImported;
  const std::vector<float> known = future_steps(l);
  ASSERT_EQ(known.size(), 3 * sim::kImportedFutureSteps);
  EXPECT_EQ(known[known.size() - 3], 1);
  l.unknown |= sim::kUnknownFuture;
  EXPECT_TRUE(future_steps(l).empty());
}

TEST_F(RecordSource, TellsASteadyHistoryOfAsManySamplesAsAreAskedFor) {
  const fs::path folder = set_.path / "braking";
  auto w = must(sim::RecordSetWriter::create(folder, "made"));
  for (uint64_t seed = 900'200'000; seed < 900'200'012; ++seed) {
    sim::Record r = must(sim::make_record(seed, {}, true));
    for (sim::EgoState& s : r.labels.history) s.vx -= 2 * s.t_s, s.x -= s.t_s * s.t_s, s.ax -= 2;
    EXPECT_TRUE(w.add(r));
  }
  EXPECT_TRUE(w.finish());
  data_["records"] = folder.string();
  const auto source = [&](double share) {
    data_["steady_history"] = share;
    return make();
  };
  const auto told = must(source(0)), steady = must(source(1)), half = must(source(0.5));
  int of_told = 0, of_steady = 0;
  for (int64_t i = 0; i < 24; ++i) {
    const Sample a = must(told->get(i)), b = must(steady->get(i)), c = must(half->get(i));
    EXPECT_EQ(a.pixel_values, b.pixel_values);
    EXPECT_EQ(a.future, b.future) << "what would be right is what it was";
    EXPECT_NE(a.tokens, b.tokens);
    of_told += c.tokens == a.tokens;
    of_steady += c.tokens == b.tokens;
  }
  EXPECT_EQ(of_told + of_steady, 24);
  EXPECT_GT(of_told, 5);
  EXPECT_GT(of_steady, 5);
  data_["steady_history"] = -0.5;
  EXPECT_THAT(error(), testing::HasSubstr("steady_history: expected a number in [0, 1], got -0.5"));
}

TEST_F(RecordSource, RefusesATextConfigThatIsNoObject) {
  config_["text_config"] = 7;
  EXPECT_THAT(error(), testing::HasSubstr("text_config"));
}

TEST(SimulatedSource, PerturbedRecordsAreTaughtAndTheirCellsTold) {
  const fs::path folder = fs::path(SLIP_SOURCE_DIR) / "configs" / "demo";
  json::object data{
      {"kind", "simulated"}, {"first_seed", 900'200'000}, {"count", 12}, {"model", (folder / "config.json").string()}};
  const Sample plain = must(must(make_record_source(data, folder.string()))->get(0));
  data["perturbed"] = 1;
  const Sample moved = must(must(make_record_source(data, folder.string()))->get(0));
  EXPECT_NE(plain.pixel_values, moved.pixel_values);
  EXPECT_NE(plain.future, moved.future);
  EXPECT_TRUE(moved.weight.empty());  // all of it is known
  const auto why = [&](const std::string& key, const json::value& value) {
    json::object d = data;
    d[key] = value;
    const auto source = make_record_source(d, folder.string());
    return source ? std::string() : source.error().message;
  };
  EXPECT_THAT(why("perturbed", 2), testing::HasSubstr("perturbed: expected a number in [0, 1], got 2"));
  data["grounding"] = json::object{{"weight", 1}};
  const auto source = must(make_record_source(data, folder.string()));
  data["perturbed"] = 0;
  const auto as_drawn = must(make_record_source(data, folder.string()));
  int differ = 0, shown = 0;
  for (int64_t i = 0; i < 12; ++i) {
    const Sample a = must(source->get(i)), b = must(as_drawn->get(i));
    ASSERT_EQ(a.grounding.size(), b.grounding.size());
    for (size_t k = 0; k < a.grounding.size(); ++k) {
      differ += a.grounding[k] != b.grounding[k];
      shown += a.grounding_weight[k] == 1;
    }
  }
  EXPECT_GT(shown, 10);
  EXPECT_GT(differ, 10) << "another place sees things in other cells";
}

TEST(SimulatedSource, GivesAModelOfGraphVisibilityContentsOfItsForm) {
  const fs::path folder = fs::path(SLIP_SOURCE_DIR) / "configs" / "demo-cot";
  const json::object data{{"kind", "simulated"},
                          {"first_seed", 1},
                          {"count", 3},
                          {"model", (folder / "config.json").string()},
                          {"waypoint_step_m", 0.5},
                          {"grounding", json::object{{"weight", 0.5}}}};
  const auto source = must(make_record_source(data, folder.string()));
  const Sample s = must(source->get(0));
  ASSERT_TRUE(check_sample(s));
  ASSERT_TRUE(check_graph_sample(s));
  EXPECT_EQ(std::count(s.response.begin(), s.response.end(), 1), 0);
  EXPECT_EQ(s.grids.size(), 3U);
  const GraphRows g = graph_rows(s, draft_blocks(s, {}, {}), {});
  double items = 0, cells = 0, drafts = 0;
  for (size_t f = 0; f < s.contents.size(); ++f)
    if (!is_unused(s.graph->form, s.contents, f))
      items += static_cast<double>(drawn_items(s.graph->form.fields()[f], s.contents[f]).size());
  for (const int32_t target : s.grounding) cells += target >= 0;
  for (const auto& t : g.rows.terms) drafts += t.noisy;
  EXPECT_EQ(cells, 3 * 56);
  EXPECT_GT(items, 100);
  EXPECT_EQ(g.rows.count, items + drafts);  // cells are not counted, as in the dual stream
  EXPECT_EQ(static_cast<double>(g.rows.terms.size()), items + drafts + cells);
}

TEST(Grounding, ABodyIsAsFarAsItsNearEnd) {
  sim::SeenBody bus;
  bus.x = 20, bus.y = 0, bus.length = 12, bus.width = 2.5F;
  EXPECT_DOUBLE_EQ(near_end_m(bus), 14);  // from behind
  bus.yaw = std::numbers::pi_v<float>;
  EXPECT_NEAR(near_end_m(bus), 14, 1e-5);
  bus.yaw = std::numbers::pi_v<float> / 2;  // across the road
  EXPECT_NEAR(near_end_m(bus), 18.75, 1e-5);
  bus.y = 9;  // its corner is 3 m to the side
  EXPECT_NEAR(near_end_m(bus), std::hypot(18.75, 3), 1e-5);
  bus.x = 1, bus.y = 0;
  EXPECT_EQ(near_end_m(bus), 0);
}

TEST(Grounding, EverySecondCellThatShowsSomethingSaysHowFarItIs) {
  EXPECT_EQ(range_letter(0.5), 0);
  EXPECT_EQ(range_letter(3), 0);
  EXPECT_EQ(range_letter(3 * std::pow(20, 10.0 / 19)), 10);
  EXPECT_EQ(range_letter(60), 19);
  EXPECT_EQ(range_letter(1000), 19);
  const fs::path folder = fs::path(SLIP_SOURCE_DIR) / "configs" / "demo-cot";
  const auto tokenizer = must(Tokenizer::load(folder.string()));
  const auto one = [&](std::string_view text) { return must(tokenizer.encode(text)).at(0).value; };
  const auto source = [&](bool range) {
    return must(make_record_source({{"kind", "simulated"},
                                    {"first_seed", 1},
                                    {"count", 8},
                                    {"model", (folder / "config.json").string()},
                                    {"grounding", json::object{{"weight", 0.5}, {"range", range}}}},
                                   folder.string()));
  };
  const auto words = source(false), both = source(true);
  int letters = 0, shown = 0;
  for (int64_t i = 0; i < 8; ++i) {
    const Sample a = must(words->get(i)), b = must(both->get(i));
    EXPECT_EQ(a.grounding_weight, b.grounding_weight);
    for (size_t k = 0; k < a.grounding.size(); ++k) {
      shown += a.grounding[k] >= 0 && a.grounding[k] != one("no");
      if (a.grounding[k] == b.grounding[k]) continue;
      EXPECT_NE(a.grounding[k], one("no"));  // where there is nothing, nothing has a distance
      EXPECT_GE(b.grounding[k], one("A"));
      EXPECT_LE(b.grounding[k], one("T"));
      ++letters;
    }
  }
  ASSERT_GT(shown, 100);
  EXPECT_NEAR(letters, shown / 2.0, shown / 10.0);
}

}  // namespace
}  // namespace slip
