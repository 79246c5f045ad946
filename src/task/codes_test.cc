// SPDX-License-Identifier: Apache-2.0
// Promises of trajectories as codes: a form of codes has the truth that its codebook says, its answers say the path again, and what does not
// fit together is refused in words.
#include "task/codes.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/must_testing.h"
#include "sim/record/make.h"
#include "task/task_tokenizer.h"
#include "task/wod.h"
#include "text/tokenizer.h"

namespace slip {
namespace {

using testing::HasSubstr;
constexpr int32_t kCodes = 24;

Result<TaskOptions> options_of(std::string_view slipstream) {
  return task_options(must(parse_json(fmt::format(R"({{"slipstream": {}}})", slipstream), "c")).as_object(), "c");
}

TaskOptions codes_task(bool reasoning = false) {
  return must(options_of(
      fmt::format(R"({{"form": "drive-cot", "prompt": "compact", "reasoning": {}, "codes": {{"count": 6, "values": {}}}}})",
                  reasoning, kCodes)));
}

sim::Labels labels_of(uint64_t seed) { return must(sim::make_record(seed, {}, false)).labels; }

/// A folder with a tokenizer that has the codes, and their book.
struct Folder {
  Folder() {
    if (const Status made = make_task_tokenizer(
            at.path, {.form = TaskForm::kDriveCot, .vocab = 760, .records = 60, .codes = codes_task().drive_cot});
        !made)
      throw std::runtime_error(made.error().message);
    std::vector<std::vector<Pose>> futures;
    for (uint64_t seed = 0; seed < 80; ++seed) futures.push_back(future_poses(labels_of(seed)));
    const auto made = must(TrajectoryCodebook::make(futures, {.codes = kCodes, .steps = 11, .iterations = 8}));
    if (!write_file(at.path / "codebook.json", json::serialize(made.to_json()))) throw std::runtime_error("codebook.json");
    tokenizer.emplace(must(Tokenizer::load(at.path)));
    book = must(load_codebook(codes_task(), at.path));
  }
  CompiledForm form(bool reasoning = false) const {
    return must(task_form(codes_task(reasoning), {&*tokenizer, tokenizer->find("<|NULL|>"), tokenizer->size()}, book));
  }
  test::TemporaryFolder at;
  std::optional<Tokenizer> tokenizer;
  CodebookPtr book;
};
const Folder& folder() {
  static const Folder kFolder;
  return kFolder;
}

size_t index_of(const Form& form, std::string_view name) {
  for (size_t f = 0; f < form.fields().size(); ++f)
    if (form.fields()[f].name == name) return f;
  throw std::runtime_error("no field " + std::string(name));
}

TEST(CodesForm, HasOneFieldOfSixCodesBehindTheMetaActions) {
  for (const bool reasoning : {false, true}) {
    const CompiledForm form = folder().form(reasoning);
    const size_t f = index_of(form.form, "trajectory");
    const Field& field = form.form.fields()[f];
    EXPECT_EQ(f + 1, form.form.fields().size());
    EXPECT_EQ(field.budget, 6);
    EXPECT_FALSE(field.end);
    EXPECT_EQ(parent_names(form.form, field), (std::vector<std::string>{"meta_action.longitudinal", "meta_action.lateral"}));
    // The hand-off is the label's colon, as on every line; then nothing but codes.
    EXPECT_EQ(folder().tokenizer->token_bytes(*form.form.fixed_at(field.start - 1)), ":");
    EXPECT_EQ(folder().tokenizer->token_text(*form.form.fixed_at(field.start + 6)), "Ċ");
    const auto& edges = field.rules.state(0).edges;
    ASSERT_EQ(edges.size(), static_cast<size_t>(kCodes));
    for (int32_t c = 0; c < kCodes; ++c)
      EXPECT_EQ(folder().tokenizer->token_text(edges[static_cast<size_t>(c)].id), fmt::format("<|code_{}|>", c));
  }
}

TEST(CodesForm, TruthIsTheCodebooksAndComesBackAsItsPath) {
  for (const bool reasoning : {false, true}) {
    const CompiledForm form = folder().form(reasoning);
    for (uint64_t seed = 100; seed < 120; ++seed) {
      const sim::Labels labels = labels_of(seed);
      const auto values = must(truth_values(labels, form, *folder().tokenizer));
      const auto answer = must(render(form, values, *folder().tokenizer));
      const auto read = must(parse(form, answer, *folder().tokenizer));
      EXPECT_EQ(read, values);
      const std::vector<int32_t> codes = folder().book->encode(future_poses(labels), 6);
      EXPECT_EQ(codes_of(std::get<std::vector<double>>(values.back())), codes);
      // Six codes of 1.1 s are 6.6 s; records know 6.4, and what lies behind that was never compared.
      const std::vector<Pose> path = path_of(form, read), whole = folder().book->decode(codes);
      ASSERT_EQ(path.size(), 64U);
      for (size_t i = 0; i < path.size(); ++i) EXPECT_EQ(distance2_m2(path[i], whole[i]), 0);
      const std::string text = answer_text(form, answer, *folder().tokenizer);
      EXPECT_THAT(text, HasSubstr(fmt::format("\ntrajectory:<|code_{}|><|code_{}|>", codes[0], codes[1])));
    }
  }
}

TEST(CodesForm, WithoutItsCodebookHasNeitherTruthNorPath) {
  const CompiledForm form =
      must(task_form(codes_task(), {&*folder().tokenizer, folder().tokenizer->find("<|NULL|>"), folder().tokenizer->size()}));
  EXPECT_FALSE(form.codebook);
  const auto truth = truth_values(labels_of(3), form, *folder().tokenizer);
  ASSERT_FALSE(truth);
  EXPECT_THAT(truth.error().message, HasSubstr("field trajectory"));
  EXPECT_TRUE(path_of(form, must(truth_values(labels_of(3), folder().form(), *folder().tokenizer))).empty());
}

TEST(CodesForm, ARequestsOwnFormOfTheCodesHasTheCodebookToo) {
  const auto compiled = [&](std::string_view first, std::string_view last, int count, std::string_view section, int items) {
    const std::string schema = fmt::format(
        R"({{"type": "object", "x-layout": "lines", "properties": {{"go": {{"type": "array", "x-section": "{}", "minItems": {}, "maxItems": {},
            "items": {{"type": "integer", "x-bins": {{"first": "{}", "last": "{}", "count": {}}}}}}}}}}})",
        section, items, items, first, last, count);
    CompiledForm form =
        must(compile_schema(must(parse_json(schema, "s")), "s", {&*folder().tokenizer, std::nullopt, folder().tokenizer->size()}));
    lend_codebook(form, folder().book, codes_task(), *folder().tokenizer);
    return form;
  };
  EXPECT_TRUE(compiled("<|code_0|>", "<|code_23|>", kCodes, "trajectory", 5).codebook);
  EXPECT_FALSE(compiled("<|code_0|>", "<|code_23|>", kCodes, "elsewhere", 5).codebook);
  EXPECT_FALSE(compiled("<|code_0|>", "<|code_22|>", kCodes - 1, "trajectory", 5).codebook);
  EXPECT_FALSE(compiled("<|code_0|>", "<|code_23|>", kCodes, "trajectory", 7).codebook) << "the seventh begins at 6.6 s";
}

TEST(CodesForm, OnALineBinsAreAddedTokensAlone) {
  const auto compiled = compile_schema(
      must(parse_json(
          R"({"type": "object", "x-layout": "lines", "properties": {"a": {"type": "integer", "x-bins": {"first": "0", "last": "9", "count": 10}}}})",
          "s")),
      "s", {&*folder().tokenizer, std::nullopt, folder().tokenizer->size()});
  ASSERT_FALSE(compiled);
  EXPECT_THAT(compiled.error().message,
              HasSubstr("expected ids of added tokens from \"0\" to \"9\" in a layout of lines, got \"0\""));
}

TEST(CodesTask, TheTokenizersOtherIdsAreThoseOfOneWithoutCodes) {
  const test::TemporaryFolder plain;
  ASSERT_TRUE(make_task_tokenizer(plain.path, {.form = TaskForm::kDriveCot, .vocab = 760 - kCodes, .records = 60}));
  const Tokenizer t = must(Tokenizer::load(plain.path));
  ASSERT_EQ(folder().tokenizer->size(), t.size() + kCodes);
  for (int32_t id = 0; id < t.size(); ++id) ASSERT_EQ(folder().tokenizer->token_text({id}), t.token_text({id})) << id;
}

TEST(CodesTask, TheyAreAddedBehindATokenizersTokens) {
  const test::TemporaryFolder plain, with;
  ASSERT_TRUE(make_task_tokenizer(plain.path, {.form = TaskForm::kDriveCot, .vocab = 760 - kCodes, .records = 60}));
  const Status added = add_code_tokens(plain.path, with.path, codes_task().drive_cot);
  ASSERT_TRUE(added) << added.error().message;
  // The same as one that was made with them.
  const Tokenizer t = must(Tokenizer::load(with.path));
  ASSERT_EQ(t.size(), folder().tokenizer->size());
  for (int32_t id = 0; id < t.size(); ++id) ASSERT_EQ(folder().tokenizer->token_text({id}), t.token_text({id})) << id;
  const std::string text = "trajectory:<|code_3|><|code_23|>\nkeep";
  EXPECT_EQ(must(t.encode(text)), must(folder().tokenizer->encode(text)));
  const Status twice = add_code_tokens(with.path, with.path, codes_task().drive_cot);
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("expected a tokenizer without the token <|code_0|>, got one with it"));
  const test::TemporaryFolder none;
  EXPECT_THAT(add_code_tokens(none.path, with.path, codes_task().drive_cot).error().message,
              HasSubstr("expected a tokenizer.json, got none"));
}

TEST(CodesTask, ErrorsOfTheFolderAreSaidInWords) {
  const TaskOptions task = codes_task();
  const auto refused = [&](const TaskOptions& o, const std::filesystem::path& at) {
    const auto book = load_codebook(o, at);
    return book ? std::string("taken") : book.error().message;
  };
  EXPECT_EQ(refused(task, folder().at.path), "taken");
  const test::TemporaryFolder empty;
  EXPECT_THAT(refused(task, empty.path), HasSubstr("expected the codebook codebook.json that its config.json names"));
  TaskOptions other = task;
  other.codebook = "book.json";
  EXPECT_THAT(refused(other, folder().at.path), HasSubstr("expected the codebook book.json"));
  other = task;
  other.drive_cot.code_values = 25;
  EXPECT_THAT(refused(other, folder().at.path),
              HasSubstr("expected 25 codes, as many as config.json says that the model has tokens for, got 24"));
  for (const int32_t count : {4, 7}) {
    other = task;
    other.drive_cot.codes = count;
    EXPECT_THAT(refused(other, folder().at.path), HasSubstr("at least 5 s and begin within 6.4 s, got pieces of 1.1 s")) << count;
  }
  EXPECT_FALSE(must(load_codebook(must(options_of(R"({"form": "drive-cot"})")), empty.path)));
}

TEST(CodesTask, OptionsAreReadAndRefusedByTheirKey) {
  const TaskOptions task =
      must(options_of(R"({"form": "drive-cot", "codes": {"count": 8, "values": 9, "tokens": "way", "book": "b.json"}})"));
  EXPECT_EQ(task.drive_cot.codes, 8);
  EXPECT_EQ(code_token(task.drive_cot, 8), "<|way_8|>");
  EXPECT_EQ(task.codebook, "b.json");
  const auto error = [](std::string_view codes, std::string_view form = "drive-cot") {
    const auto o = options_of(fmt::format(R"({{"form": "{}", "codes": {}}})", form, codes));
    return o ? std::string("taken") : o.error().message;
  };
  EXPECT_THAT(error(R"({"count": 6, "values": 9})", "wod-e2e"), HasSubstr("expected form drive-cot beside them, got wod-e2e"));
  EXPECT_THAT(error("6"), HasSubstr("codes"));
  EXPECT_THAT(error(R"({"count": 6})"), HasSubstr("values"));
  EXPECT_THAT(error(R"({"values": 6})"), HasSubstr("count"));
  EXPECT_THAT(error(R"({"count": 0, "values": 9})"), HasSubstr("count: expected 1 to 64, got 0"));
  EXPECT_THAT(error(R"({"count": 6, "values": 1})"), HasSubstr("values: expected 2 to 65536, got 1"));
  EXPECT_THAT(error(R"({"count": 6, "values": 9, "size": 1})"), HasSubstr("expected count, values, tokens or book, got size"));
  for (const char* name : {"", "../b.json", "/etc/passwd", ".b", "a\\\\b"})
    EXPECT_THAT(error(fmt::format(R"({{"count": 6, "values": 9, "book": "{}"}})", name)),
                HasSubstr("expected the name of a file in the model's folder"))
        << name;
}

TEST(CodesTask, TheFullPromptAsksForCodes) {
  TaskOptions task = codes_task();
  task.prompt = PromptStyle::kFull;
  EXPECT_THAT(prompt_text(task, standing_ego()).before_images, HasSubstr("in codes"));
  task.drive_cot.codes = 0;
  EXPECT_THAT(prompt_text(task, standing_ego()).before_images, HasSubstr("five waypoints"));
}

TEST(CodebookError, IsThatOfThePathsThatWentThroughIt) {
  // One code stands, one goes 1 m in 0.1 s; a car that does either is told without error.
  const auto book = must(TrajectoryCodebook::parse(
      must(parse_json(R"({"format": "slipstream-codebook", "step_s": 0.1, "steps": 1, "codes": [[0, 0, 0], [1, 0, 0]]})", "b")),
      "b"));
  std::vector<std::vector<Pose>> futures;
  const auto straight = [](double speed_mps) {
    std::vector<Pose> out;
    for (int i = 1; i <= 64; ++i) out.push_back({0.1 * speed_mps * i, 0, 0});
    return out;
  };
  for (int i = 0; i < 99; ++i) futures.push_back(straight(10));
  futures.push_back(straight(12));  // falls behind by 0.2 m in every step
  const CodebookError e = codebook_error(book, futures, 64);
  EXPECT_EQ(e.paths, 100);
  EXPECT_NEAR(e.at_3s.mean_m, 6.0 / 100, 1e-9);
  EXPECT_NEAR(e.at_3s.p99_m, 0, 1e-9) << "99 of 100 are no farther off";
  EXPECT_NEAR(e.at_6_4s.ade_mean_m, 0.2 * 65 / 2 / 100, 1e-9);
  futures.back() = straight(10);
  futures[0] = futures[1] = straight(12);
  EXPECT_NEAR(codebook_error(book, futures, 64).at_3s.p99_m, 6, 1e-9);
}

}  // namespace
}  // namespace slip
