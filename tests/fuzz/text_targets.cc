// SPDX-License-Identifier: Apache-2.0
// Tokenizer files, texts and ids for the four kinds of tokenizer, chat templates.
#include <array>
#include <cstring>

#include "base/json.h"
#include "fuzz/targets.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace slip::fuzz {

namespace {

constexpr std::array<const char*, 4> kKinds = {"qwen", "llama2", "llama3", "tekken"};

/// Ids of any kind: what is decoded is UTF-8, and the pieces of a stream are the decoding.
void decode_and_stream(const Tokenizer& t, std::span<const TokenId> ids) {
  for (const bool skip : {false, true}) {
    const std::string whole = t.decode(ids, skip);
    require(is_valid_utf8(whole), "decoding gives UTF-8");
    StreamDecoder stream(t, skip);
    std::string joined;
    for (const TokenId id : ids) {
      const std::string piece = stream.push(id);
      require(is_valid_utf8(piece), "a stream sends whole characters");
      joined += piece;
    }
    require(joined + stream.flush() == whole, "a stream sends what decoding gives");
  }
}

void encode_and_decode(const Tokenizer& t, std::string_view text) {
  const auto ids = t.encode(text);
  if (!ids) return require_refusal(ids.error());
  require(is_valid_utf8(text), "what is encoded is UTF-8");
  for (const TokenId id : *ids) require(id.value >= 0 && id.value < t.size(), "ids lie in the vocabulary");
  decode_and_stream(t, *ids);
}

/// Keeps the first merges and what they need: as many branches as the whole file, in less to mutate.
std::string shortened(const std::string& file, size_t merges_kept, size_t added_kept) {
  json::value v = json::parse(file);
  json::object& model = v.at("model").as_object();
  json::array& merges = model["merges"].as_array();
  if (merges.size() > merges_kept) merges.resize(merges_kept);
  json::object vocab;
  const json::object& all = model["vocab"].as_object();
  const auto keep = [&](std::string_view token) {
    if (const auto* id = all.if_contains(token)) vocab[token] = *id;
  };
  for (const auto& [token, id] : all) {
    if (token.size() <= 2 || token.starts_with("<0x")) keep(token);
  }
  for (const json::value& m : merges) {
    std::string left, right;
    if (const auto* pair = m.if_array()) {
      left = (*pair)[0].as_string().c_str(), right = (*pair)[1].as_string().c_str();
    } else {
      const std::string line(m.as_string());
      left = line.substr(0, line.find(' ')), right = line.substr(line.find(' ') + 1);
    }
    keep(left), keep(right), keep(left + right);
  }
  model["vocab"] = std::move(vocab);
  json::array& added = v.at("added_tokens").as_array();
  if (added.size() > added_kept) added.resize(added_kept);
  return json::serialize(v);
}

}  // namespace

void run_tokenizer(Bytes bytes) {
  put("tokenizer.json", text_of(bytes));
  const auto t = Tokenizer::load(scratch());
  if (!t) return require_refusal(t.error());
  encode_and_decode(*t, "The caf\u00e9  isn't at 1234 <|im_end|> <f13> e\u0301\u4e2d\n\n \U0001F697");
  std::vector<TokenId> ids;
  for (int32_t id = -1; id < std::min(t->size(), 400); ++id) {
    ids.push_back({id});
    const std::string_view spelling = t->token_text({id});
    if (!spelling.empty()) require(t->find(spelling).has_value(), "a token is found by its spelling");
  }
  decode_and_stream(*t, ids);
}

std::vector<std::string> seeds_tokenizer() {
  std::vector<std::string> out;
  for (const char* kind : kKinds) {
    out.push_back(shortened(fixture(std::filesystem::path("text") / kind / "tokenizer.json"), 20, 24));
  }
  return out;
}

// The first byte chooses the kind and whether the rest is a text or ids, two bytes each.
void run_text(Bytes bytes) {
  static const auto kTokenizers = [] {
    std::vector<Tokenizer> out;
    for (const char* kind : kKinds) {
      auto t = Tokenizer::load(std::filesystem::path(SLIP_FIXTURES) / "text" / kind);
      require(static_cast<bool>(t), "the fixture's tokenizer loads");
      out.push_back(std::move(*t));
    }
    return out;
  }();
  if (bytes.empty()) return;
  const auto first = std::to_integer<size_t>(bytes[0]);
  const Tokenizer& t = kTokenizers[first % 4];
  const std::string_view rest = text_of(bytes.subspan(1));
  if ((first & 4) == 0) {
    const std::string text = to_valid_utf8(rest);
    require(is_valid_utf8(text) && (text == rest) == is_valid_utf8(rest),
            "lossy text is UTF-8, and changed only where it was none");
    return encode_and_decode(t, (first & 8) == 0 ? std::string_view(text) : rest);
  }
  std::vector<TokenId> ids;
  for (size_t i = 0; i + 1 < rest.size(); i += 2) {
    int16_t id = 0;
    std::memcpy(&id, rest.data() + i, 2);
    ids.push_back({id % (t.size() + 2)});
  }
  decode_and_stream(t, ids);
}

std::vector<std::string> seeds_text() {
  std::vector<std::string> out;
  for (size_t kind = 0; kind < kKinds.size(); ++kind) {
    const json::value cases = json::parse(fixture(std::filesystem::path("text") / kKinds[kind] / "cases.json"));
    for (const json::value& c : cases.at("cases").as_array()) {
      std::string ids(1, static_cast<char>(kind + 4));
      for (const json::value& id : c.at("ids").as_array()) {
        const auto n = static_cast<int16_t>(id.as_int64());
        ids.append(reinterpret_cast<const char*>(&n), 2);
      }
      out.push_back(static_cast<char>(kind) + std::string(c.at("text").as_string()));
      out.push_back(std::move(ids));
    }
  }
  return out;
}

void run_chat(Bytes bytes) {
  const auto chat = ChatTemplate::compile(text_of(bytes), "chat_template", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  if (!chat) return require_refusal(chat.error());
  const std::vector<ChatMessage> messages = {{"system", {TextItem{"You drive."}}},
                                             {"user", {ImageItem{}, TextItem{"What next?\n"}, VideoItem{}}},
                                             {"assistant", {TextItem{"Stop."}}},
                                             {"user", {TextItem{"Why?"}}}};
  for (size_t first = 0; first < messages.size(); ++first) {
    for (const bool flag : {false, true}) {
      ChatOptions options{.add_generation_prompt = flag, .add_vision_id = flag};
      if (flag) options.enable_thinking = first == 0;
      const auto text = chat->render(std::span(messages).subspan(first), options);
      if (!text) require_refusal(text.error());
    }
  }
}

std::vector<std::string> seeds_chat() {
  std::vector<std::string> out = fixtures_in("text/templates", ".jinja");
  out.emplace_back(qwen_vl_template_text());
  out.emplace_back(json::parse(fixture("text/qwen/tokenizer_config.json")).at("chat_template").as_string());
  return out;
}

}  // namespace slip::fuzz
