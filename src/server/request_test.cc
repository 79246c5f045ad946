// SPDX-License-Identifier: Apache-2.0
// Bodies of OpenAI's clients, and those of others: what is read, and what is refused by name.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "server/completing.h"
#include "server/openai_reply.h"
#include "server/openai_request.h"
#include "server/policy_socket.h"

namespace slip::server {
namespace {

Allowed allowed() {
  Allowed a;
  a.builtin = {"drive-cot", "wod-e2e"};
  a.forms["mine"] = R"({"type":"object"})";
  return a;
}

CompletionRequest good(std::string_view body, bool chat = true) {
  auto read = read_completion(body, chat, allowed());
  if (const auto* no = std::get_if<Refusal>(&read)) {
    ADD_FAILURE() << no->message;
    return {};
  }
  return std::move(std::get<CompletionRequest>(read));
}

std::string refused(std::string_view body, bool chat = true) {
  auto read = read_completion(body, chat, allowed());
  const auto* no = std::get_if<Refusal>(&read);
  if (!no) return "";
  EXPECT_EQ(no->status, 400);
  return no->message;
}

std::string chat(std::string_view rest) { return fmt::format(R"({{"messages":[{{"role":"user","content":"hi"}}]{}}})", rest); }

TEST(ChatRequest, IsReadAsItsClientMeansIt) {
  const CompletionRequest c = good(R"({"model":"demo","messages":[{"role":"system","content":"short"},
    {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},{"type":"text","text":"what?"}]}],
    "temperature":0.5,"top_p":0.9,"seed":-3,"n":2,"stream":true,"stream_options":{"include_usage":true,"include_fields":true},
    "max_completion_tokens":20,"slipstream":{"deadline_ms":400,"session":"car7","partial":true,"decoder":"ar"}})");
  EXPECT_EQ(c.request.messages.size(), 2U);
  EXPECT_TRUE(c.request.messages[1].parts[0].image);
  EXPECT_EQ(c.request.messages[1].parts[1].text, "what?");
  EXPECT_EQ(c.images, std::vector<std::string>{"hi"});
  EXPECT_EQ(c.request.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(c.request.rollouts, 2);
  EXPECT_EQ(c.request.max_tokens, 20);
  EXPECT_EQ(c.request.form, "none");
  EXPECT_TRUE(c.stream && c.include_usage && c.include_fields && c.partial);
  EXPECT_EQ(c.terms.deadline_ms, 400);
  EXPECT_EQ(c.request.decoder.preset, "ar");
}

TEST(ChatRequest, NothingIsNamedBesideAuto) {
  EXPECT_EQ(good(chat(R"(,"slipstream":{"decoder":"auto"})")).request.decoder.preset, "");
  EXPECT_EQ(good(chat(R"(,"slipstream":{"width":"fixed:4"})")).request.decoder.width, "fixed:4");
  for (const char* part : {R"("width":"fixed:4")", R"("drafter":"lookup")", R"("verifier":"exact")"})
    EXPECT_NE(refused(chat(fmt::format(R"(,"slipstream":{{"decoder":"auto",{}}})", part))), "") << part;
}

TEST(ChatRequest, ANamedAutoIsNotTheServersOwnDecoder) {
  const auto taken = [](const CompletionRequest& c) {
    slipstream::Request request = c.request;
    take_own_decoder({.preset = "ar"}, c.names_auto, request);
    return request.decoder.preset + "|" + request.decoder.width;
  };
  EXPECT_EQ(taken(good(chat(R"(,"slipstream":{"decoder":"auto"})"))), "|");
  EXPECT_EQ(taken(good(chat(R"(,"slipstream":{"decoder":"fields"})"))), "fields|");
  EXPECT_EQ(taken(good(chat(R"(,"slipstream":{"width":"fixed:4"})"))), "|fixed:4");
  EXPECT_EQ(taken(good(chat(R"(,"slipstream":{})"))), "ar|");
  EXPECT_EQ(taken(good(chat(""))), "ar|");
  for (const char* word : {"auto", "ar"}) {
    Packed frame_id;
    const auto o = read_observation(pack({PackedMap{{{std::string("decoder")}, {std::string(word)}}}}), {}, frame_id);
    ASSERT_TRUE(o);
    EXPECT_EQ(o->names_auto, word == std::string("auto"));
    EXPECT_EQ(o->request.decoder.preset, o->names_auto ? "" : "ar");
  }
}

TEST(ChatRequest, ASaidThingIsSaidOnce) {
  EXPECT_EQ(good(chat(R"(,"seed":18446744073709551615)")).request.seed, UINT64_MAX);
  EXPECT_NE(refused(chat(R"(,"seed":1.5)")), "");
  EXPECT_EQ(refused(chat(R"(,"seed":1,"seed":2)")), "body: #/seed: expected each key once, got it again");
  EXPECT_EQ(refused(chat(R"(,"slipstream":{"decoder":"ar","decoder":"auto"})")),
            "body: #/slipstream/decoder: expected each key once, got it again");
  EXPECT_EQ(check_written(R"({"a":{"b":1,"b":2}})", "body")->param, "a");
  EXPECT_EQ(check_written(R"({"a":1,"a":2})", "body")->param, "a");
  EXPECT_FALSE(check_written(R"({"a":1,"b":{"a":1}})", "body"));
  const std::string key(1000, 'k');
  EXPECT_LT(check_written(fmt::format(R"({{"{0}":1,"{0}":2}})", key), "body")->message.size(), 100U)
      << "the client's bytes stay away";
}

TEST(RequestsOfAFile, SayNothingThatCannotActThere) {
  const auto refusal = [](std::string_view rest) {
    CompletionRequest c = good(chat(rest));
    auto wrong = check_names(c, "demo", "");
    if (!wrong) wrong = check_of_file(c);
    return wrong ? fmt::format("{} {}", wrong->status, wrong->message) : "";
  };
  const std::string none = "expected none in a file of requests, where it cannot act, got ";
  EXPECT_EQ(refusal(R"(,"model":"demo","stream":false,"slipstream":{"partial":false,"batch":true})"), "");
  EXPECT_EQ(refusal(R"(,"model":"other")"), "404 model: expected demo, got \"other\"");
  EXPECT_EQ(refusal(R"(,"stream":true)"), "400 stream: " + none + "true");
  EXPECT_EQ(refusal(R"(,"slipstream":{"deadline_ms":400})"), "400 slipstream.deadline_ms: " + none + "400");
  EXPECT_EQ(refusal(R"(,"slipstream":{"partial":true})"), "400 slipstream.partial: " + none + "true");
  EXPECT_EQ(refusal(R"(,"slipstream":{"session":"car7"})"), "400 slipstream.session: " + none + "\"car7\"");
  EXPECT_NE(refusal(R"(,"slipstream":{"trajectory_head":true})").find("trajectory_head"), std::string::npos);
  EXPECT_NE(refusal(R"(,"slipstream":{"fast_plan":true})").find("fast_plan"), std::string::npos);
}

TEST(ChatRequest, NamesAFormOrBringsASchema) {
  EXPECT_EQ(good(chat(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"drive-cot"}})")).request.form,
            "drive-cot");
  EXPECT_EQ(good(chat(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"mine"}})")).request.form_schema,
            R"({"type":"object"})");
  EXPECT_EQ(
      good(chat(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object"}}})"))
          .request.form_schema,
      R"({"type":"object","title":"x"})");
  EXPECT_EQ(good(chat(R"(,"response_format":{"type":"json_schema","schema":{"type":"object"}})")).request.form_schema,
            R"({"type":"object"})");
}

TEST(ChatRequest, WhatWouldOpenAFileOrANetworkIsRefused) {
  for (const char* name : {"../secret.json", "/etc/passwd", "a.json", "unknown"})
    EXPECT_NE(refused(chat(fmt::format(R"(,"response_format":{{"type":"json_schema","json_schema":{{"name":"{}"}}}})", name))), "")
        << name;
  for (const char* word : {"previous:/etc/passwd", "model:/m", "dflash:x", "coupled:x"})
    EXPECT_NE(refused(chat(fmt::format(R"(,"slipstream":{{"drafter":"{}"}})", word))), "") << word;
  EXPECT_NE(refused(chat(R"(,"slipstream":{"verifier":"sampler:x"})")), "");
  EXPECT_NE(refused(chat(R"(,"slipstream":{"width":"measured:/x"})")), "");
  for (const char* url :
       {"http://169.254.169.254/latest", "https://example.com/a.png", "file:///etc/passwd", "ftp://x", "data:image/png,abc"})
    EXPECT_NE(refused(fmt::format(
                  R"({{"messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"{}"}}}}]}}]}})", url)),
              "")
        << url;
}

TEST(ChatRequest, SaysWhatItDoesNotDo) {
  EXPECT_EQ(refused(chat(R"(,"top_logprobs":3)")), "top_logprobs: expected logprobs true beside it, got none");
  EXPECT_EQ(refused(chat(R"(,"top_logprobs":21,"logprobs":true)")), "top_logprobs: expected a whole number from 0 to 20, got 21");
  EXPECT_EQ(refused(chat(R"(,"logprobs":true,"n":2,"temperature":1)")), "logprobs: expected n 1 with them, got 2");
  EXPECT_EQ(refused(chat(R"(,"stop":[""])")), "stop: expected texts of 1 to 1024 bytes, got \"\"");
  EXPECT_EQ(refused(chat(R"(,"stop":7)")), "stop: expected texts of 1 to 1024 bytes, got 7");
  EXPECT_EQ(refused(chat(R"(,"response_format":{"type":"json_schema","schema":{"type":"object","type":"array"}})")),
            "body: #/response_format/schema/type: expected each key once, got it again");
  EXPECT_EQ(refused(chat(R"(,"stop":"x","response_format":{"type":"json_schema","schema":{"type":"object"}})")),
            "stop: expected free text, got a form, whose fields end by themselves");
  EXPECT_EQ(refused(chat(R"(,"temperature":"hot")")), "temperature: expected a number from 0 to 100, got \"hot\"");
  EXPECT_EQ(refused(chat(R"(,"tempertaure":1)")),
            "tempertaure: expected a parameter of this server, got one that it does not know");
  EXPECT_EQ(refused(chat(R"(,"n":0)")), "n: expected a whole number from 1 to 64, got 0");
  EXPECT_NE(refused(R"({"messages":[]})"), "");
  EXPECT_NE(refused(R"([1])"), "");
  EXPECT_NE(refused(R"({"messages":)"), "");
  EXPECT_NE(refused(std::string(100000, '[')), "");
  EXPECT_EQ(good(chat(R"(,"stop":null,"logit_bias":{},"frequency_penalty":0,"user":"u")")).choices, 1);
}

TEST(ChatRequest, TakesWhatChangesNothing) {
  for (const char* key : {"tool_choice", "function_call"}) {
    for (const char* word : {"none", "auto"}) good(chat(fmt::format(R"(,"{}":"{}")", key, word)));
    EXPECT_EQ(refused(chat(fmt::format(R"(,"{}":"required")", key))),
              fmt::format("{}: expected none or auto (no tools here), got \"required\"", key));
    EXPECT_NE(refused(chat(fmt::format(R"(,"{}":{{"name":"f"}})", key))), "");
  }
  EXPECT_EQ(good(chat(R"(,"max_tokens":3,"max_completion_tokens":3)")).max_tokens, 3);
  EXPECT_EQ(refused(chat(R"(,"max_tokens":4,"max_completion_tokens":3)")),
            "max_tokens: expected max_completion_tokens, 3, or none beside it, got 4");
  good(chat(R"(,"modalities":["text"],"n":1,"tools":[],"presence_penalty":0)"));
  EXPECT_EQ(refused(chat(R"(,"modalities":["text","audio"])")), "modalities: expected text (no audio here), got an array");
  EXPECT_EQ(good(R"({"prompt":"x","best_of":1})", false).choices, 1);
  EXPECT_EQ(good(R"({"prompt":"x","best_of":3,"n":3})", false).choices, 3);
  EXPECT_EQ(refused(R"({"prompt":"x","best_of":3})", false), "best_of: expected n, 1, since every answer is told, got 3");
  EXPECT_NE(refused(chat(R"(,"best_of":1)")), "") << "chat has none";
  EXPECT_FALSE(good(R"({"prompt":"x","logprobs":false})", false).log_probs);
  EXPECT_NE(refused(R"({"prompt":"x","logprobs":true})", false), "");
  good(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","refusal":null,"annotations":[],"audio":null,
    "function_call":null,"tool_calls":null},{"role":"user","content":"c"}]})");
}

TEST(ChatRequest, PassesOverNothingThatMeansAnother) {
  const auto schema = R"(,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object"}}})";
  const std::string beside = R"(,"slipstream":{"form":"drive-cot"})";
  EXPECT_EQ(refused(chat(schema + beside)), "slipstream.form: expected none beside response_format, which says the form, got one");
  const auto named = [](const char* name) {
    return fmt::format(R"(,"response_format":{{"type":"json_schema","json_schema":{{"name":"{}"}}}})", name);
  };
  EXPECT_NE(refused(chat(named("wod-e2e") + beside)), "");
  EXPECT_EQ(good(chat(named("drive-cot") + beside)).request.form, "drive-cot") << "the same";
  EXPECT_EQ(good(chat(R"(,"response_format":{"type":"text"})" + beside)).request.form, "drive-cot");
  const auto image = [](std::string_view rest) {
    return fmt::format(
        R"({{"messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,aGk="{}}}}}]}}]}})",
        rest);
  };
  for (const char* detail : {"auto", "low", "high"})
    EXPECT_EQ(good(image(fmt::format(R"(,"detail":"{}")", detail))).images.size(), 1U);
  const std::string where = "messages[0].content[0].image_url.";
  EXPECT_EQ(refused(image(R"(,"detail":"tiny")")),
            where + "detail: expected auto or low or high (pictures are read alike), got \"tiny\"");
  EXPECT_EQ(refused(image(R"(,"size":3)")), where + "size: expected a parameter of this server, got one that it does not know");
}

TEST(ChatRequest, APredictionHasALimit) {
  const auto prediction = [](size_t bytes) {
    return chat(fmt::format(R"(,"prediction":{{"type":"content","content":"{}"}})", std::string(bytes, 'x')));
  };
  const size_t most = allowed().most_text_bytes;
  EXPECT_EQ(good(prediction(most)).request.prediction.size(), most);
  EXPECT_EQ(refused(prediction(most + 1)), "prediction.content: expected at most 4194304 bytes, got 4194305");
}

TEST(ChatRequest, StopsAndLogProbabilitiesAreTheEngines) {
  const CompletionRequest one = good(chat(R"(,"stop":"\n\n","logprobs":true,"top_logprobs":0)"));
  EXPECT_EQ(one.request.stop, std::vector<std::string>{"\n\n"});
  EXPECT_TRUE(one.request.log_probs);
  EXPECT_EQ(good(chat(R"(,"stop":["a","b"])")).request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(good(R"({"prompt":"x","logprobs":0})", false).request.log_probs);
  EXPECT_EQ(good(R"({"prompt":"x","logprobs":5})", false).request.top_log_probs, 5);
  EXPECT_NE(refused(R"({"prompt":"x","logprobs":6})", false), "");
  EXPECT_EQ(good(chat(R"(,"logprobs":true,"top_logprobs":20)")).request.top_log_probs, 20);
}

TEST(ChatRequest, AsksForTheServersOwnTrajectoryHead) {
  CompletionRequest c = good(chat(R"(,"slipstream":{"trajectory_head":true,"fast_plan":true})"));
  EXPECT_TRUE(c.trajectory_head && c.request.fast_plan && c.request.trajectory_head.empty());
  EXPECT_NE(name_head("", true, c.request).find("trajectory_head: expected a server that has one"), std::string::npos);
  EXPECT_NE(name_head("/heads/a", false, c.request).find("fast_plan"), std::string::npos);
  EXPECT_EQ(name_head("/heads/a", true, c.request), "");
  EXPECT_EQ(c.request.trajectory_head, "/heads/a");
  EXPECT_NE(refused(chat(R"(,"slipstream":{"trajectory_head":"/etc"})")), "") << "nothing that a client writes names a folder";
}

TEST(Usage, CountsEachRolloutsTokensAndGreedyCopiesAsOftenAsTheyAreTold) {
  slipstream::Answer answer;
  answer.statistics.tokens = 7;
  answer.statistics.all_tokens = 7 + 3 + 5;
  answer.statistics.prompt_rows = 100;
  const auto tokens = [&](std::string_view rest) {
    const json::object usage = usage_of(answer, good(chat(rest)));
    EXPECT_EQ(usage.at("total_tokens").as_int64(), 100 + usage.at("completion_tokens").as_int64());
    return usage.at("completion_tokens").as_int64();
  };
  EXPECT_EQ(tokens(R"(,"n":3,"temperature":1)"), 15);
  answer.statistics.all_tokens = 7;  // one answer
  EXPECT_EQ(tokens(R"(,"n":3)"), 21);
  EXPECT_EQ(tokens(R"(,"n":1,"temperature":1)"), 7);
  EXPECT_EQ(tokens(""), 7);
}

TEST(LogProbs, SpecialTokensTakeNoRoomAndOffsetsCountCharacters) {
  using Offsets = std::vector<size_t>;
  const std::string cafe = "caf\xC3\xA9";
  EXPECT_EQ(text_offsets(cafe + " is", {cafe, "<|pad|>", " i", "s", "<|end|>"}, true), (Offsets{0, 4, 4, 6}))
      << "the special token has letters and no room; the end has none";
  EXPECT_EQ(text_offsets(cafe + "!", {"caf\xC3", "\xA9", "!"}, true), (Offsets{0, 3, 4})) << "a character of two tokens";
  EXPECT_EQ(text_offsets("a\xEF\xBF\xBD"
                         "bc",
                         {"a", "\xEF", "\xBF", "b", "c"}, true),
            (Offsets{0, 1, 1, 2, 3}))
      << "a broken one";
  EXPECT_EQ(text_offsets("a\xEF\xBF\xBD"
                         "b",
                         {"a\xE2", "b"}, true),
            (Offsets{0, 2}));
  EXPECT_EQ(text_offsets("Hello you", {" Hello", " you", "</s>"}, true), (Offsets{0, 5})) << "a blank that is not told";
  EXPECT_EQ(text_offsets("one tw", {"one", " two", " three"}, true), (Offsets{0, 3})) << "it stops within a token";
  EXPECT_EQ(text_offsets("{}", {"{", "", "}", ""}, false), (Offsets{0, 1, 1, 2})) << "a form's tokens are all told";
}

TEST(PartialPlan, IsTheHeadsLastElseTheAnswersElseTheNewestEarlyOne) {
  const auto event = [](const slipstream::Trajectory& plan, std::string_view source, std::string_view section, bool final) {
    slipstream::Event e;
    e.kind = slipstream::Event::Kind::kPlan;
    e.plan = &plan;
    e.plan_source = source;
    e.after_section = section;
    e.final = final;
    return e;
  };
  const auto told = [](const PlanSoFar& plan) { return json::serialize(partial_part({}, plan, {})); };
  const slipstream::Trajectory one{.waypoints = {{1, 0}}}, two{.waypoints = {{2, 0}}}, own{.waypoints = {{3, 0}}},
      last{.waypoints = {{4, 0}}};
  PlanSoFar plan;
  EXPECT_NE(told(plan).find("\"trajectory\":null"), std::string::npos);
  EXPECT_EQ(told(plan).find("plan_source"), std::string::npos);
  plan.take(event(one, "head", "prompt", false));
  plan.take(event(two, "head", "objects", false));
  EXPECT_NE(told(plan).find("[[2E0,0E0]]"), std::string::npos) << told(plan);
  EXPECT_NE(told(plan).find("\"plan_source\":\"head\",\"after_section\":\"objects\""), std::string::npos) << told(plan);
  plan.take(event(own, "answer", "", true));
  plan.take(event(one, "head", "reasons", false));
  EXPECT_NE(told(plan).find("\"plan_source\":\"answer\""), std::string::npos) << told(plan);
  EXPECT_EQ(told(plan).find("after_section"), std::string::npos);
  plan.take(event(last, "head", "reasons", true));
  plan.take(event(own, "answer", "", true));
  EXPECT_NE(told(plan).find("[[4E0,0E0]]"), std::string::npos) << told(plan);
}

TEST(MaxTokens, AreBoundedOfFreeTextAndNoLessThanAFormsBudget) {
  CompletionRequest c = good(R"({"prompt":"go on","max_tokens":5000})", false);
  EXPECT_EQ(check_max_tokens(c, 0, allowed())->code, "above_limit");
  EXPECT_EQ(check_max_tokens(c, 5001, allowed())->code, "below_budget");
  EXPECT_FALSE(check_max_tokens(c, 5000, allowed()));
  EXPECT_EQ(c.request.max_tokens, slipstream::Request{}.max_tokens) << "a form has its own";
}

TEST(CompletionBody, IsATextAsItIs) {
  const CompletionRequest c = good(R"({"prompt":"go on","max_tokens":4})", false);
  EXPECT_EQ(c.request.prompt, "go on");
  EXPECT_TRUE(c.request.raw_prompt);
  EXPECT_NE(refused(R"({"prompt":[1,2]})", false), "");
}

TEST(Errors, DoNotSayWhereTheModelLies) {
  EXPECT_EQ(without_folder("/srv/models/demo/tokenizer.json: expected x, got /srv/models/demo", "/srv/models/demo/", "demo"),
            "demo/tokenizer.json: expected x, got demo");
  EXPECT_EQ(without_folder("models/demo: expected x", "models/demo", "models/demo"), "models/demo: expected x")
      << "comes to an end";
  EXPECT_EQ(without_folder("expected x", "", "demo"), "expected x");
  EXPECT_EQ(without_folder("#/a.b/type: expected string", ".", "demo"), "#/a.b/type: expected string");
  EXPECT_EQ(without_folder("tri/config.json: #/trip/type: expected string, got tri", "tri", "x"),
            "x/config.json: #/trip/type: expected string, got x")
      << "not within words";
}

TEST(Errors, AreInTheRequestsWords) {
  EXPECT_EQ(in_requests_words("--top-k: expected 0, got '--x' (--rollouts, run --json) a--b -- ---c"),
            "top_k: expected 0, got 'x' (n, run json) a--b -- ---c");
  const std::string wide = "\xC3\xA9";
  EXPECT_EQ(cut("ab" + wide, 3), "ab...") << "no part of a character";
  EXPECT_EQ(cut("ab" + wide, 4), "ab" + wide);
  EXPECT_EQ(in_requests_words(std::string(100000, 'x')).size(), 4096U + 3);
  const std::string word(100000, 'x');
  for (const char* key : {"decoder", "drafter", "verifier", "width", "unnorm_key"})
    EXPECT_NE(refused(chat(fmt::format(R"(,"slipstream":{{"{}":"{}"}})", key, word))).find("at most 200 bytes, got 100000"),
              std::string::npos)
        << key;
}

TEST(Errors, CutTheNamesOfPictures) {
  const std::string name = "image" + std::string(100000, 'x');
  const Packed none{int64_t{1}}, of_name{PackedMap{{{name}, none}}};
  for (const Packed& wrong : {of_name, Packed{PackedMap{{{std::string("images")}, of_name}}}}) {
    Packed frame_id;
    const auto read = read_observation(pack(wrong), {}, frame_id);
    ASSERT_FALSE(read);
    EXPECT_LT(read.error().message.size(), 200U);
  }
}

TEST(ChatRequest, ASchemaHasTheBytesThatItsClientWrote) {
  const auto with = [](size_t bytes) {
    const std::string before = R"({"type":"string","description":")", behind = "\"}";
    const std::string schema = before + std::string(bytes - before.size() - behind.size(), 'a') + behind;
    return chat(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"z","schema":)" + schema + "}}");
  };
  const size_t most = Allowed{}.most_schema_bytes;
  EXPECT_TRUE(good(with(most)).brings_schema) << "its name is not counted, which becomes its title";
  EXPECT_NE(refused(with(most + 1)), "");
}

TEST(Errors, WhatHasNoRoomHasACodeOfItsOwn) {
  using slipstream::ErrorKind;
  const std::string what = "context: expected at most 4096 positions, got 5000 of the prompt";
  EXPECT_EQ(refusal_of({ErrorKind::kBadInput, what}).code, "context_length_exceeded");
  EXPECT_EQ(refusal_of({ErrorKind::kUnsupported, what}).code, "unsupported") << "a form that fits behind no prompt";
  EXPECT_EQ(refusal_of({ErrorKind::kBadInput, "prompt: expected text, got context: "}).code, "bad_input");
  EXPECT_EQ(error_body({.message = "n: expected 1"}).at("error").at("code"), "invalid_value");
}

TEST(Base64, GoesThereAndBack) {
  for (const std::string text : {"", "a", "ab", "abc", "\xFF\x00\x01z"}) EXPECT_EQ(*from_base64(to_base64(text)), text);
  EXPECT_FALSE(from_base64("a"));
  EXPECT_FALSE(from_base64("ab*d"));
}

TEST(Images, FilesOfUrlsAreDecoded) {
  EXPECT_EQ(*from_percent("/a%20b/%C3%A9%25"), "/a b/\xC3\xA9%");
  for (const char* wrong : {"a%", "a%2", "a%2g", "a%-1", "%00"}) EXPECT_FALSE(from_percent(wrong)) << wrong;
  const std::string name = fmt::format("files of urls {}", ::getpid());
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "one two.png") << "hi";
  const ImageLimits limits{.media_path = folder.string()};
  std::string url = "file://" + (folder / "one two.png").string();
  for (size_t at = 0; (at = url.find(' ', at)) != std::string::npos;) url.replace(at, 1, "%20");
  const auto read = bytes_of_url(url, limits);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, "hi");
  const std::string beside = folder.string() + ".png";
  std::ofstream(beside) << "no";
  EXPECT_FALSE(bytes_of_url("file://" + folder.string() + "/%2e%2e/" + name + ".png", limits)) << "nor does it lead out";
  std::filesystem::remove_all(folder);
  std::filesystem::remove(beside);
}

TEST(Images, WhatThereIsNoMemoryForMayBeAskedAgain) {
  const Refusal later = refusal_of_picture({slipstream::ErrorKind::kResource, "image 0: expected memory, got none"});
  EXPECT_EQ(later.status, 503);
  EXPECT_EQ(later.type + " " + later.code, "overloaded_error resources");
  EXPECT_GT(later.retry_after_s, 0);
  const Refusal never = refusal_of_picture({slipstream::ErrorKind::kBadInput, "image 0: expected JPEG, got other bytes"});
  EXPECT_EQ(fmt::format("{} {}", never.status, never.code), "400 invalid_image");
}

TEST(Images, AreMeasuredBeforeTheyAreDecoded) {
  std::string png("\x89PNG\r\n\x1A\n\0\0\0\rIHDR\0\x01\x86\xA0\0\x01\x86\xA0\x08\x02\0\0\0", 29);
  const auto sides = size_in_header(png);
  ASSERT_TRUE(sides);
  EXPECT_EQ(sides->first, 100000);
  const auto image = image_of_bytes(png, "image 0", {});
  ASSERT_FALSE(image);
  EXPECT_NE(image.error().message.find("100000 x 100000"), std::string::npos);
  EXPECT_FALSE(size_in_header("GIF89a"));
  EXPECT_FALSE(size_in_header(std::string("\xFF\xD8\xFF\xE0", 4)));
  EXPECT_EQ(*size_in_header("P6\n# c\n12 34\n255\n"), (std::pair<int64_t, int64_t>{12, 34}));
  const std::string small = "P6\n12 34\n255\n";
  EXPECT_EQ(decoded_bytes(std::vector<std::string>{small, "damaged", small, png}), 2 * 12 * 34 * 6)
      << "what is refused takes no room";
}

}  // namespace
}  // namespace slip::server
