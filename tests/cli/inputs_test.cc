// SPDX-License-Identifier: Apache-2.0
// Inputs as people have them, and what the command line says beside the answer: pipes, conversations, stop texts, log-probabilities, plans that
// no car could follow, forms that a model was not trained for.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>

#include "tests/cli/answer.h"

namespace slip::test {
namespace {

class Inputs : public Small {
 protected:
  /// Exit code of a line of bash in which $S is the binary; 128 + signal when one ended it. stdout goes to `out`, stderr to `err` of the folder.
  int bash(const std::string& line) {
    const std::string script = write("line.sh", "S='" SLIP_BINARY "'\n" + line + "\n");
    const int status = std::system(("bash '" + script + "' >'" + path("out") + "' 2>'" + path("err") + "'").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string out() const { return read_bytes(path("out")); }
  std::string err() const { return read_bytes(path("err")); }
  const std::string demo_ = demo_model();
  const std::string ego_ = (fs::path(SLIP_SOURCE_DIR) / "tests/data/comma2k19_ego.json").string();
};

TEST_F(Inputs, PipesAndStandardInputInPlaceOfFiles) {
  const std::string form = write("form.json", kSmallForm), image = write_ppm("camera.ppm", 64, 48);
  const json::value usual = run_json(request({"--form", form}));
  ASSERT_EQ(bash("$S run -m '" + small_ + "' -p 'go on' --form - --json <'" + form + "'"), 0) << err();
  EXPECT_EQ(parse_json(out(), "out")->at("tokens"), usual.at("tokens"));
  ASSERT_EQ(bash("$S run -m '" + small_ + "' -p 'go on' --form <(cat '" + form + "') --json"), 0) << err();
  EXPECT_EQ(parse_json(out(), "out")->at("tokens"), usual.at("tokens"));
  const json::value drives = run_json({"run", "--model", demo_, "--image", image, "--ego", ego_});
  for (const std::string& more :
       {" --image - --ego '" + ego_ + "' <'" + image + "'", " --image '" + image + "' --ego - <'" + ego_ + "'",
        " --image <(cat '" + image + "') --ego <(cat '" + ego_ + "')"}) {
    ASSERT_EQ(bash("$S run -m '" + demo_ + "' --json" + more), 0) << err();
    EXPECT_EQ(parse_json(out(), "out")->at("tokens"), drives.at("tokens")) << more;
  }
  EXPECT_EQ(bash("$S run -m '" + demo_ + "' --image - --ego - </dev/null"), 2) << "only one of them can read it";
  EXPECT_NE(err().find("standard input: expected one option that reads it"), std::string::npos) << err();
}

TEST_F(Inputs, FoldersOfOutputsAreMade) {
  EXPECT_EQ(run(over_form({"--trace", path("a/b/trace.json")})).code, 0);
  EXPECT_TRUE(fs::exists(path("a/b/trace.json")));
  EXPECT_EQ(run({"simulate", "--count", "1", "--out", path("c/d/set")}).code, 0);
  EXPECT_TRUE(fs::exists(path("c/d/set/index.json")));
}

TEST_F(Inputs, TheAnswerIsToldBeforeWhatFailsBehindIt) {
  const Ran words = run(over_form({"--picture", "/dev/full"})), json = run(over_form({"--picture", "/dev/full", "--json"}));
  EXPECT_EQ(words.code, 5) << words.err;
  EXPECT_EQ(words.out, run(over_form({})).out);
  EXPECT_EQ(json.code, 5);
  const auto answer = parse_json(json.out, "stdout");
  ASSERT_TRUE(answer) << "one document, the answer's";
  EXPECT_TRUE(answer->as_object().contains("tokens"));
  EXPECT_NE(json.err.find("/dev/full: expected to write"), std::string::npos) << json.err;
  refused(over_form({"--trace", write("file", "x") + "/below/trace.json"}), 3, "below");
}

TEST_F(Inputs, ContextBeyondTheModelsPositionsIsRefused) {
  std::string words;
  for (int i = 0; i < 600; ++i) words += "go on ";
  const std::string file = write("long.txt", words);
  refused({"run", "--model", small_, "--prompt-file", file, "--form", "none"}, 3,
          "context: expected at most 512 positions, which the model was made for (max_position_embeddings), got ");
  refused({"run", "--model", small_, "--prompt-file", file, "--form", write("form.json", kSmallForm)}, 3,
          "context: expected at most 512");
  // Free text ends at the last position.
  const std::string shorter = write("shorter.txt", words.substr(0, 300));
  const json::value v = run_json({"run", "--model", small_, "--prompt-file", shorter, "--form", "none", "--max-tokens", "2000",
                                  "--decoder", "ar", "--temperature", "3"});
  EXPECT_LT(v.at("tokens").as_array().size(), 512U);
}

TEST_F(Inputs, MarksThatDoNotMatchThePicturesAreRefused) {
  const std::string image = write_ppm("camera.ppm", 64, 48);
  const auto ask = [&](const std::string& prompt, int images) {
    std::vector<std::string> out{"run", "--model", demo_, "--form", "none", "--max-tokens", "2", "--prompt", prompt};
    for (int i = 0; i < images; ++i) out.insert(out.end(), {"--image", image});
    return out;
  };
  EXPECT_EQ(run(ask("left <image> right <image>", 2)).code, 0);
  EXPECT_EQ(run(ask("all <image>", 3)).code, 0);
  EXPECT_EQ(run(ask("none", 2)).code, 0);
  refused(ask("a <image> b <image>", 3), 3, "prompt: expected a mark <image> each, or none, for 3 images, got 2 of them");
  refused(ask("a <image>", 0), 3, "prompt: expected no mark <image> for 0 images, got 1 of them");
}

TEST_F(Inputs, AModelWithoutAFormOfItsOwnWritesFreeText) {
  const json::value text = run_json(request({"--max-tokens", "4"})),
                    asked = run_json(request({"--max-tokens", "4", "--form", "none"}));
  EXPECT_EQ(text.at("tokens"), asked.at("tokens"));
  EXPECT_FALSE(text.as_object().contains("form"));
  EXPECT_EQ(text.at("finish"), "length");
}

TEST_F(Inputs, WhatAModelWasNotTrainedForIsSaid) {
  const std::string image = write_ppm("camera.ppm", 64, 48);
  const Ran one = run({"run", "--model", demo_, "--image", image});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.err.find("note: the model was trained on 3 cameras (front left, front, front right), and sees 1 image\n"),
            std::string::npos)
      << one.err;
  const Ran form = run({"run", "--model", demo_, "--image", image, "--image", image, "--image", image, "--form",
                        write("form.json", R"({"type": "object", "properties": {"a": {"enum": ["yes", "no"]}}})")});
  EXPECT_EQ(form.code, 0) << form.err;
  EXPECT_NE(form.err.find("note: the model was trained for form wod-e2e, and is asked for "), std::string::npos) << form.err;
  EXPECT_EQ(form.err.find("cameras"), std::string::npos);
  const Ran idle = run(request({"--max-tokens", "2", "--top-k", "5"}));
  EXPECT_NE(idle.err.find("note: --top-k does nothing at temperature 0"), std::string::npos) << idle.err;
  EXPECT_EQ(run(request({"--max-tokens", "2", "--top-k", "5", "--temperature", "1"})).err.find("note:"), std::string::npos);
  EXPECT_EQ(run(request({"--max-tokens", "2", "--top-k", "5", "--quiet"})).err, "");
}

TEST_F(Inputs, APlanTellsWhetherACarCouldFollowIt) {
  // Pictures alone: a car at rest. At 50 m/s the history and the pictures say two things.
  const json::value v = run_json({"run", "--model", demo_, "--image", write_ppm("camera.ppm", 64, 48), "--ego", ego_});
  EXPECT_TRUE(v.at("trajectory").at("infeasible").is_array());
}

TEST_F(Inputs, AConversationHasTurnsAndASystem) {
  const auto ask = [&](std::vector<std::string> more) {
    std::vector<std::string> all{"run", "--model", demo_, "--form", "none", "--max-tokens", "6", "--temperature", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return run_json(all);
  };
  const std::string one = write("one.json", R"([{"role": "user", "content": "go on"}])");
  EXPECT_EQ(ask({"--prompt", "go on"}).at("tokens"), ask({"--messages", one}).at("tokens"));
  const std::string with_system = write("system.json", R"({"messages": [{"role": "system", "content": "be brief"},
      {"role": "user", "content": [{"type": "text", "text": "go on"}]}]})");
  const json::value a = ask({"--prompt", "go on", "--system", "be brief"}), b = ask({"--messages", with_system});
  EXPECT_EQ(a.at("tokens"), b.at("tokens"));
  EXPECT_EQ(a.at("statistics").at("rows"), b.at("statistics").at("rows"));
  const std::string turns = write("turns.json", R"([{"role": "user", "content": "go on"}, {"role": "assistant", "content": "yes"},
      {"role": "user", "content": "and now?"}])");
  EXPECT_GT(ask({"--messages", turns}).at("statistics").at("rows").as_int64(),
            ask({"--messages", one}).at("statistics").at("rows").as_int64());
  const auto refuse = [&](const char* name, const char* text, std::string_view words) {
    refused({"run", "--model", demo_, "--form", "none", "--messages", write(name, text)}, 3, words);
  };
  refuse("a.json", R"([{"role": "robot", "content": "x"}])", "a.json[0]: role: expected system, user or assistant, got robot");
  refuse("b.json", R"([{"role": "assistant", "content": "x"}])", "expected the user's turn last, got the assistant's");
  refuse("c.json", R"([{"role": "user", "text": "x"}])", "expected the keys role and content, got text");
  refuse("d.json", "[]", "expected 1 to 1024 messages, got 0");
  refuse("e.json", R"([{"role": "user", "content": [{"type": "audio"}]}])", "type: expected text, image or video, got audio");
  refuse("f.json", R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])",
         "got image_url: pictures come with the request");
  refused({"run", "--model", small_, "--messages", turns, "--max-tokens", "2"}, 4,
          "expected a chat template that says how turns are told apart");
}

TEST_F(Inputs, FreeTextEndsBeforeAStop) {
  const json::value whole = run_json(request({"--max-tokens", "60", "--decoder", "ar"}));
  const std::string text(whole.at("answer").as_string());
  ASSERT_GT(text.size(), 12U) << text;
  const std::string stop = text.substr(text.size() / 2, 3);
  const std::string before = text.substr(0, text.find(stop));
  for (const char* preset : {"ar", "self-spec"}) {
    const json::value v = run_json(request({"--max-tokens", "60", "--decoder", preset, "--stop", stop}));
    EXPECT_EQ(std::string(v.at("answer").as_string()), before) << preset;
    EXPECT_EQ(v.at("finish"), "stop");
    EXPECT_LT(v.at("tokens").as_array().size(), whole.at("tokens").as_array().size());
    const Ran shown = run(request({"--max-tokens", "60", "--decoder", preset, "--stop", stop, "--stream"}));
    EXPECT_EQ(shown.out, before + "\n");
  }
  refused(over_form({"--stop", "x"}), 2, "--stop: expected free text");
  refused(request({"--stop", ""}), 2, "--stop");
}

TEST_F(Inputs, AFormIsShownFieldByField) {
  const Ran ran = run(over_form({"--stream"}));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("light: "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("\nspeed: "), std::string::npos) << ran.out;
}

TEST_F(Inputs, LogProbabilitiesAreTheSameFromEveryExactDecoder) {
  const auto ask = [&](const char* preset) { return run_json(over_form({"--decoder", preset, "--log-probs"})).at("log_probs"); };
  const json::value slow = ask("scaffold-ar");
  EXPECT_EQ(slow.as_object().size(), 3U);
  for (const auto& field : slow.as_object()) {
    double sum = 0;
    for (const json::value& p : field.value().at("tokens").as_array()) sum += p.to_number<double>();
    EXPECT_NEAR(field.value().at("sum").to_number<double>(), sum, 1e-9);
    EXPECT_LE(sum, 0);
  }
  EXPECT_EQ(slow, ask("scaffold-spec"));
  EXPECT_EQ(slow, ask("ar"));
  EXPECT_FALSE(run_json(over_form({})).as_object().contains("log_probs"));
  const json::value top = run_json(over_form({"--decoder", "ar", "--log-probs", "--top-log-probs", "2"}));
  int64_t places = 0;
  for (const auto& field : top.at("log_probs").as_object())
    for (const json::value& place : field.value().at("top").as_array()) {
      if (place.as_array().empty()) continue;  // nothing else was allowed
      EXPECT_LE(place.as_array().size(), 2U);
      const std::string said(place.at(0).at("text").as_string());
      EXPECT_NE(top.at("answer").as_string().find(said), std::string::npos) << "greedy: the likeliest is what is said, " << said;
      ++places;
    }
  EXPECT_GT(places, 2);
  refused(over_form({"--decoder", "scaffold-spec", "--verifier", "rejection", "--temperature", "1", "--log-probs"}), 4,
          "log-probabilities");
}

// ---- what the command line says of itself

TEST_F(Inputs, HelpAndNearMisses) {
  EXPECT_EQ(run({"help"}).out, run({"--help"}).out);
  EXPECT_EQ(run({"help", "run"}).out, run({"run", "--help"}).out);
  EXPECT_NE(run({"help", "words"}).out.find("  scaffold"), 0U);
  EXPECT_NE(run({"help", "words"}).out.find("drafter"), std::string::npos);
  refused_in_words({"help", "rum"}, 2, "got rum (did you mean run?)");
  refused({"simluate"}, 2, "got simluate (did you mean simulate?)");
  refused({"bench", "forwrd"}, 2, "(did you mean forward?)");
  refused({"run", "--model", "m", "--promt", "a"}, 2, "(did you mean --prompt?)");
  refused({"run", "--model", "m", "--prompt", "a", "--xyzzyx", "a"}, 2, "got others: --xyzzyx a");
  const std::string help = run({"run", "--help"}).out;
  for (const char* words : {"Sampling:", "The question:", "The answer:", "The decoder:", "Output:", "--top-p", "=1 ", "-m,--model",
                            "-p,--prompt", "=256", "=auto"})
    EXPECT_NE(help.find(words), std::string::npos) << words << "\n" << help;
  const std::string version = run({"--version"}).out;
  EXPECT_THAT(version, testing::ContainsRegex("^slipstream [0-9.]+ \\([0-9a-z]+\\+?; (amx|avx|neon|portable)"))
      << "commit and instruction set";
}

TEST_F(Inputs, MoreThreadsThanProcessorsAreCappedWithAWord) {
  const Ran ran = run(request({"--max-tokens", "2", "--threads", "1000", "--json"}));
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.err.find("threads: 1000 are asked for, and "), std::string::npos) << ran.err;
}

// ---- limits of the system

TEST_F(Inputs, ASmallStackIsEnough) {
  const std::string form = write("form.json", kSmallForm);
  std::string deep;
  for (int i = 0; i < 60; ++i) deep += "[";
  const std::string nested = write("deep.json", deep);
  for (const char* kilobytes : {"64", "128", "256"}) {
    const std::string limit = "ulimit -s " + std::string(kilobytes) + "; ";
    EXPECT_EQ(bash(limit + "$S run -m '" + small_ + "' -p 'go on' --form '" + form + "'"), 0) << kilobytes << err();
    EXPECT_EQ(bash(limit + "$S form '" + nested + "'"), 3) << kilobytes << err();
    EXPECT_EQ(bash(limit + "$S simulate --count 2 --out '" + path("set" + std::string(kilobytes)) + "'"), 0) << kilobytes << err();
    EXPECT_EQ(bash(limit + "$S run -m '" + demo_ + "' --image '" + write_ppm("camera.ppm", 64, 48) + "'"), 0) << kilobytes << err();
  }
}

// Whatever is left of the memory, a command answers or says that there is too little.
TEST_F(Inputs, LittleMemoryIsAnErrorInWords) {
  const std::string form = write("form.json", kSmallForm), image = write_ppm("camera.ppm", 640, 480);
  const std::vector<std::string> commands{
      "$S run -m '" + small_ + "' -p 'go on' --form '" + form + "'",
      "$S run -m '" + demo_ + "' --image '" + image + "' --threads 2",
      "$S simulate --count 4 --threads 4 --out '" + path("set") + "'",
      "$S inspect '" + demo_ + "'",
  };
  int refused_ones = 0, answered = 0;
  for (const std::string& command : commands)
    for (int megabytes = 24; megabytes < 400; megabytes += megabytes < 100 ? 7 : 41) {
      fs::remove_all(path("set"));
      const int code = bash("ulimit -v " + std::to_string(megabytes * 1024) + "; " + command);
      if (code == 127) continue;  // the program itself could not be loaded
      EXPECT_TRUE(code == 0 || code == 5) << command << " with " << megabytes << " MB: " << code << "\n" << err();
      refused_ones += code == 5;
      answered += code == 0;
      EXPECT_TRUE(!fs::exists(path("set")) || fs::exists(path("set/index.json"))) << "no empty folder stays";
    }
  // Near the least that the second model needs, where a stack that cannot grow would be a signal.
  const std::string cot = (fs::path(demo_).parent_path() / "demo-cot").string();
  for (int kilobytes = 60 << 10; kilobytes < 80 << 10; kilobytes += 1100) {
    const int code =
        bash("ulimit -v " + std::to_string(kilobytes) + "; $S run -m '" + cot + "' --image '" + image + "' --threads 2");
    EXPECT_TRUE(code == 0 || code == 5) << kilobytes << " KB: " << code << "\n" << err();
  }
  EXPECT_GT(refused_ones, 0);
  EXPECT_GT(answered, 0);
}

TEST_F(Inputs, WhatIsWrittenNeverReplacesWhatIsRead) {
  const std::string image = write_ppm("camera.ppm", 64, 48), form = write("form.json", kSmallForm), pixels = read_bytes(image);
  const std::string words = "expected another file than what is read";
  refused({"run", "-m", demo_, "--image", image, "--ego", ego_, "--picture", image}, 2, "--picture: " + words);
  refused({"run", "-m", small_, "-p", "go on", "--form", form, "--trace", form}, 2, "--trace: " + words);
  const std::string link = path("link.ppm");
  fs::create_symlink(image, link);
  refused({"run", "-m", demo_, "--image", image, "--ego", ego_, "--picture", link}, 2, words);
  EXPECT_EQ(read_bytes(image), pixels);
  EXPECT_EQ(read_bytes(form), kSmallForm);
}

TEST_F(Inputs, TrainingSaysWhatItNeedsWhereMemoryIsLittle) {
#ifndef SLIP_HAS_TRAINER
  EXPECT_EQ(bash("$S train --config c.json"), 4) << err();
#else
  for (const int kilobytes : {400000, 700000, 900000, 1050000}) {
    EXPECT_EQ(bash("ulimit -v " + std::to_string(kilobytes) +
                   "; $S train --config '" SLIP_SOURCE_DIR "/configs/smoke/sasd.json' --out '" + path("run") + "'"),
              5)
        << kilobytes << err();
    EXPECT_NE(err().find("expected an address space of at least 2048 MiB for training"), std::string::npos) << err();
  }
#endif
}

TEST_F(Inputs, WhatCountsRecordsIsRefusedForOneAnswer) {
  for (const char* option : {"--count", "--first"}) refused({"run", "-m", small_, "-p", "go on", option, "5"}, 2, "--out");
}

// Answers under way come to their end where the next request finds no memory.
TEST_F(Inputs, LittleMemoryWhileManyAreAnswered) {
  ASSERT_EQ(bash("$S simulate --seed 3 --count 3 --out '" + path("scenes") + "'"), 0) << err();
  const std::string command = "$S run -m '" + demo_ + "' --records '" + path("scenes") + "' --out '" + path("answers.jsonl") + "'";
  for (int megabytes = 90; megabytes < 150; megabytes += 4) {
    fs::remove(path("answers.jsonl"));
    fs::remove(path("answers.jsonl.partial"));
    const int code = bash("ulimit -v " + std::to_string(megabytes * 1024) + "; " + command);
    EXPECT_TRUE(code == 0 || code == 5) << megabytes << " MB: " << code << "\n" << err();
  }
}

TEST_F(Inputs, ARunGoesOnBehindItsOwnLinesAlone) {
  ASSERT_EQ(bash("$S simulate --seed 3 --count 3 --out '" + path("scenes") + "'"), 0) << err();
  const std::string run = "$S run -m '" + demo_ + "' --records '" + path("scenes") + "' --out '" + path("answers.jsonl") + "'";
  ASSERT_EQ(bash(run), 0) << err();
  const std::string whole = read_bytes(path("answers.jsonl")), first = whole.substr(0, whole.find('\n') + 1);
  EXPECT_FALSE(fs::exists(path("answers.jsonl.partial.asked")));
  // What a run asks for stands beside its lines from before the first answer on: that of one whose disk is full.
  const auto goes_on = [&](const std::string& before, const std::string& options) {
    fs::remove(path("answers.jsonl"));
    fs::remove(path("answers.jsonl.partial"));
    EXPECT_EQ(bash("ulimit -f 4; trap '' XFSZ; " + run), 5) << err();
    write_bytes(path("answers.jsonl.partial"), before);
    return bash(run + options);
  };
  EXPECT_EQ(goes_on(first + "{\"cut", ""), 0) << err();
  EXPECT_TRUE(read_bytes(path("answers.jsonl")).starts_with(first));
  EXPECT_EQ(goes_on(first, " --decoder auto"), 0) << err();  // what is taken where none is named
  EXPECT_EQ(goes_on(first, " --seed 7"), 3);
  EXPECT_THAT(err(), testing::HasSubstr("line 1: expected seed 7, got 0"));
  EXPECT_EQ(goes_on(first, " --first 1"), 3);
  EXPECT_THAT(err(), testing::HasSubstr("expected record 1, got 0"));
  EXPECT_EQ(goes_on("nothing of ours\n", ""), 3);
  EXPECT_EQ(goes_on(first, " --count 9"), 0) << err();
  EXPECT_THAT(err(), testing::HasSubstr("3 records from 0 on, not 9"));
  // Other settings, another type, other records of the same number.
  EXPECT_EQ(goes_on(first, " --temperature 0.5"), 3);
  EXPECT_THAT(err(), testing::HasSubstr("expected answers with temperature 0.5, as this run asks for, got 0"));
  // A number whose decimals are no double, and a long text: what was asked for is known again.
  const std::string odd = " --temperature 0.7 --top-p 0.9 --min-p 0.017 --section-temperature trajectory=0.3";
  EXPECT_EQ(bash("rm -f " + path("odd.jsonl") + "*; ulimit -f 4; trap '' XFSZ; " + run + "x" + odd), 5) << err();
  fs::rename(path("answers.jsonlx.partial.asked"), path("odd.asked"));
  fs::remove(path("answers.jsonlx.partial"));
  ASSERT_EQ(bash(run + "x" + odd), 0) << err();
  const std::string warm = read_bytes(path("answers.jsonlx"));
  fs::remove(path("answers.jsonlx"));
  write_bytes(path("answers.jsonlx.partial"), warm.substr(0, warm.find('\n') + 1));
  fs::rename(path("odd.asked"), path("answers.jsonlx.partial.asked"));
  EXPECT_EQ(bash(run + "x" + odd), 0) << err();
  EXPECT_EQ(goes_on(first, " --dtype int8"), 3);
  EXPECT_THAT(err(), testing::HasSubstr("expected answers with model"));
  fs::remove_all(path("scenes"));
  ASSERT_EQ(bash("$S simulate --seed 4 --count 3 --out '" + path("scenes") + "'"), 0) << err();
  write_bytes(path("answers.jsonl.partial"), first);
  EXPECT_EQ(bash(run), 3);
  EXPECT_THAT(err(), testing::HasSubstr("expected answers with records"));
  fs::remove(path("answers.jsonl.partial.asked"));
  EXPECT_EQ(bash(run), 3);
  EXPECT_THAT(err(), testing::HasSubstr("expected " + path("answers.jsonl.partial.asked") + " beside it"));
}

TEST_F(Inputs, ARunGoesOnWithTheCalibrationThatItBeganWith) {
  const std::string width = path("width.json"), out = path("answers.jsonl"),
                    run = "$S run -m '" + demo_ + "' --records '" + path("scenes") + "' --out '" + out +
                          "' --decoder scaffold-spec --width measured:'" + width + "'";
  ASSERT_EQ(bash("$S simulate --seed 3 --count 3 --out '" + path("scenes") + "'"), 0) << err();
  fs::copy_file(demo_ + "/width.json", width);
  EXPECT_EQ(bash("ulimit -f 4; trap '' XFSZ; " + run), 5) << err();
  write_bytes(width, read_bytes(width) + "\n");
  write_bytes(out + ".partial", "{\"record\": 0, \"error\": {}}\n");
  EXPECT_EQ(bash(run), 3);
  EXPECT_THAT(err(), testing::HasSubstr("expected answers with parts"));
}

TEST_F(Inputs, RequestsOfABatchHaveIdsOfTheirOwn) {
  const std::string request =
      R"({"custom_id": "one", "method": "POST", "url": "/v1/completions", "body": {"prompt": "go", "max_tokens": 2}})";
  write("twice.jsonl", request + "\n\n" + request + "\n");
  EXPECT_EQ(bash("$S run -m '" + small_ + "' --batch '" + path("twice.jsonl") + "' --out '" + path("out.jsonl") + "'"), 3);
  EXPECT_THAT(err(), testing::HasSubstr("request 2: expected a custom_id of its own, got that of request 1: \"one\""));
  // Options of one request say nothing of a batch's, and are not passed over.
  for (const char* option : {"--temperature=0.5", "--form=drive-cot", "--decoder=ar", "--seed=7", "--system=x", "--prompt=x",
                             "--visibility=graph", "--log-probs", "--image=nope.png", "--ego=nope", "--max-tokens=3", "--stop=x"})
    EXPECT_EQ(bash("$S run -m '" + small_ + "' --batch '" + path("twice.jsonl") + "' --out '" + path("out.jsonl") + "' " + option),
              2)
        << option;
}

// Who names an instruction set wants its bits: no others come in their place.
TEST_F(Inputs, AnInstructionSetThatIsNotHereIsRefused) {
  const std::string ask = " $S run -m '" + small_ + "' --form none --prompt go --max-tokens 2";
  EXPECT_EQ(bash("SLIPSTREAM_ISA=nonsense" + ask), 2);
  EXPECT_THAT(err(), testing::HasSubstr("SLIPSTREAM_ISA: expected one of portable"));
#if defined(__x86_64__)
  EXPECT_EQ(bash("SLIPSTREAM_ISA=neon" + ask), 4);
#endif
  EXPECT_EQ(bash("SLIPSTREAM_ISA=portable" + ask), 0) << err();
}

TEST_F(Inputs, AHugePromptIsToldTheModelsPositions) {
  write("huge.txt", std::string(20 << 20, 'a'));
  EXPECT_EQ(bash("$S run -m '" + demo_ + "' --form none --prompt-file '" + path("huge.txt") + "'"), 3);
  EXPECT_THAT(err(), testing::HasSubstr("max_position_embeddings"));
}

TEST_F(Inputs, WhatWasInterruptedIsAskedAgain) {
  ASSERT_EQ(bash("$S simulate --seed 3 --count 9 --out '" + path("scenes") + "'"), 0) << err();
  const std::string cot = (fs::path(demo_).parent_path() / "demo-cot").string();
  const std::string run = "$S run -m '" + cot + "' --records '" + path("scenes") + "' --at-once 4 --out '";
  ASSERT_EQ(bash(run + path("whole.jsonl") + "'"), 0) << err();
  const auto texts = [](const std::string& lines) {
    std::vector<std::string> out;
    for (size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
      const auto v = parse_json(lines.substr(at, lines.find('\n', at) - at), "line");
      out.emplace_back(v && v->get_object().contains("text") ? v->at("text").as_string().c_str() : "no answer");
    }
    return out;
  };
  int interrupted = 0;
  for (int ms = 250; ms < 1450; ms += 150) {
    const fs::path out = path("again-" + std::to_string(ms));
    const int code = bash(fmt::format("timeout --preserve-status -s INT {:.3f} {}{}'", ms / 1000.0, run, out.string()));
    ASSERT_TRUE(code == 0 || code == 130) << code << err();
    interrupted += code == 130;
    if (code == 130) {
      const std::string kept = out.string() + ".partial";
      const bool told = err().find(kept + " has what is done") != std::string::npos;
      const bool cut = err() == "slipstream: interrupted\n";  // who does not end in time is ended, and says no more
      EXPECT_EQ(told || (cut && fs::exists(kept)), fs::exists(kept)) << err();
      EXPECT_EQ(bash(run + out.string() + "'"), 0) << err();
    }
    EXPECT_EQ(texts(read_bytes(out)), texts(read_bytes(path("whole.jsonl")))) << ms << " ms";
  }
  EXPECT_GT(interrupted, 0);
}

TEST_F(Inputs, OptionsThatNoRecordCanBeAnsweredWithEndTheRun) {
  ASSERT_EQ(bash("$S simulate --seed 3 --count 2 --out '" + path("scenes") + "'"), 0) << err();
  const std::string run = "$S run -m '" + demo_ + "' --records '" + path("scenes") + "' --out '" + path("answers.jsonl") + "'";
  for (const auto& [options, code] : {std::pair{" --decoder fields", 4}, {" --section-temperature nowhere=1", 3}}) {
    EXPECT_EQ(bash(run + options), code) << options << err();
    EXPECT_FALSE(fs::exists(path("answers.jsonl")));
  }
  EXPECT_EQ(bash(run), 0) << err();
}

// ---- two at once, and one that was killed

TEST_F(Inputs, TheSecondWriterOfAFolderIsTold) {
  EXPECT_EQ(bash("$S simulate --count 40 --out '" + path("set") +
                 "' & first=$!\n"
                 "while ! ls '" +
                 path("set") +
                 "'/*.tmp-* >/dev/null 2>&1; do sleep 0.01; done\n"
                 "$S simulate --count 1 --out '" +
                 path("set") +
                 "'; second=$?\n"
                 "wait $first || exit 1\n"
                 "exit $second"),
            3)
      << err();
  EXPECT_NE(err().find("expected a folder that nobody else is writing to"), std::string::npos) << err();
  EXPECT_TRUE(fs::exists(path("set/index.json")));
}

TEST_F(Inputs, WhatAKilledRunLeftGoesWithTheNext) {
  EXPECT_EQ(bash("$S simulate --count 100000 --out '" + path("set") +
                 "' & first=$!\n"
                 "while ! ls '" +
                 path("set") +
                 "'/*.tmp-* >/dev/null 2>&1; do sleep 0.01; done\n"
                 "kill -9 $first; wait $first\n"
                 "ls '" +
                 path("set") +
                 "'/*.tmp-* >/dev/null || exit 1\n"
                 "$S simulate --count 1 --out '" +
                 path("set") + "'"),
            0)
      << err();
  for (const auto& entry : fs::directory_iterator(path("set")))
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
}

}  // namespace
}  // namespace slip::test
