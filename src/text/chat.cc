// SPDX-License-Identifier: Apache-2.0
// A folder's template and special tokens, what the template sees, and the prompt as a whole. Positions are in chat_positions.cc.
#include "text/chat.h"

#include <algorithm>

#include "base/file.h"
#include "base/json.h"

namespace slip {

namespace fs = std::filesystem;

namespace {

constexpr const char* kQwenVlTemplate =
    "{%- set count = namespace(picture=0, video=0) -%}\n"
    "{%- if not messages or messages[0].role != 'system' -%}\n"
    "{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}\n"
    "{%- endif -%}\n"
    "{%- for m in messages -%}\n"
    "{{- '<|im_start|>' ~ m.role ~ '\\n' -}}\n"
    "{%- if m.content is string -%}\n"
    "{{- m.content -}}\n"
    "{%- else -%}\n"
    "{%- for part in m.content -%}\n"
    "{%- if part.type == 'image' or 'image' in part or 'image_url' in part -%}\n"
    "{%- set count.picture = count.picture + 1 -%}\n"
    "{%- if add_vision_id -%}{{- 'Picture ' ~ count.picture ~ ': ' -}}{%- endif -%}\n"
    "{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}\n"
    "{%- elif part.type == 'video' or 'video' in part -%}\n"
    "{%- set count.video = count.video + 1 -%}\n"
    "{%- if add_vision_id -%}{{- 'Video ' ~ count.video ~ ': ' -}}{%- endif -%}\n"
    "{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}\n"
    "{%- elif 'text' in part -%}\n"
    "{{- part.text -}}\n"
    "{%- endif -%}\n"
    "{%- endfor -%}\n"
    "{%- endif -%}\n"
    "{{- '<|im_end|>\\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// The key "chat_template" of a JSON file: a string, or a list of named ones of which "default" counts.
Result<std::string> template_in(const fs::path& file) {
  SLIP_TRY(const json::value value, read_json(file));
  if (!value.is_object()) return bad_input("{}: expected an object, got another kind of JSON", file.string());
  const json::value* v = value.get_object().if_contains("chat_template");
  if (!v || v->is_null()) return std::string();
  if (v->is_string()) return std::string(v->get_string());
  if (v->is_array()) {
    for (const json::value& item : v->get_array()) {
      const json::object* o = item.if_object();
      const json::value* name = o ? o->if_contains("name") : nullptr;
      const json::value* text = o ? o->if_contains("template") : nullptr;
      if (name && text && name->is_string() && text->is_string() && name->get_string() == "default")
        return std::string(text->get_string());
    }
  }
  return bad_input("{}: key \"chat_template\": expected a string or a list with one named default, got another kind of JSON",
                   file.string());
}

using Tokens = std::vector<std::pair<std::string, std::string>>;

// bos_token and the like of tokenizer_config.json (a text, or an added token's object), else of special_tokens_map.json.
Result<Tokens> tokens_of(const fs::path& folder) {
  Tokens out;
  std::error_code ec;
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (!fs::exists(folder / file, ec)) continue;
    SLIP_TRY(const json::value value, read_json(folder / file));
    const json::object* config = value.if_object();
    if (!config) return bad_input("{}: expected an object, got another kind of JSON", (folder / file).string());
    for (const char* name : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
      const json::value* v = config->if_contains(name);
      if (v && v->is_object()) v = v->get_object().if_contains("content");
      const bool known = std::any_of(out.begin(), out.end(), [&](const auto& pair) { return pair.first == name; });
      if (v && v->is_string() && !known) out.emplace_back(name, std::string(v->get_string()));
    }
  }
  return out;
}

// A role stands in the prompt's framing: a line end or a special token in it would forge one.
bool is_role(std::string_view role) {
  if (role.empty() || role.size() > 64) return false;
  for (const char c : role) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-')) return false;
  }
  return true;
}

}  // namespace

std::string_view qwen_vl_template_text() { return kQwenVlTemplate; }

Result<ChatTemplate> ChatTemplate::compile(std::string_view jinja, std::string_view where,
                                           std::vector<std::pair<std::string, std::string>> tokens) {
  SLIP_TRY(jinja::Template program, jinja::Template::compile(jinja, fmt::format("{}: chat_template", where)));
  ChatTemplate out;
  out.program_ = std::make_shared<const jinja::Template>(std::move(program));
  out.tokens_ = std::move(tokens);
  out.takes_images_ = contains(jinja, "<|image_pad|>");
  out.knows_images_ = contains(jinja, "image");
  return out;
}

Result<ChatTemplate> ChatTemplate::load(const fs::path& folder) {
  std::error_code ec;
  for (const char* name : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"}) {
    const fs::path file = folder / name;
    if (!fs::exists(file, ec)) continue;
    std::string text;
    if (file.extension() == ".jinja") {
      SLIP_TRY(text, read_file(file, size_t{1} << 22));
      if (!is_valid_utf8(text)) return bad_input("{}: expected UTF-8, got other bytes", file.string());
    } else {
      SLIP_TRY(text, template_in(file));
    }
    if (text.empty()) continue;
    SLIP_TRY(Tokens tokens, tokens_of(folder));
    return compile(text, file.string(), std::move(tokens));
  }
  return unsupported("{}: expected a chat_template in tokenizer_config.json, chat_template.json or chat_template.jinja, got none",
                     folder.string());
}

namespace {

// Text alone is a string, as callers of the library pass it and text-only templates need it; else a list of items.
jinja::Value content_of(const ChatMessage& m) {
  const auto is_text = [](const ContentItem& item) { return std::holds_alternative<TextItem>(item); };
  if (std::all_of(m.content.begin(), m.content.end(), is_text)) {
    std::string all;
    for (const ContentItem& item : m.content) all += std::get<TextItem>(item).text;
    return all;
  }
  jinja::List items;
  for (const ContentItem& item : m.content) {
    jinja::Dict d;
    if (const auto* text = std::get_if<TextItem>(&item)) {
      d.set("type", "text");
      d.set("text", text->text);
    } else {
      d.set("type", std::holds_alternative<ImageItem>(item) ? "image" : "video");
    }
    items.push_back(std::move(d));
  }
  return items;
}

}  // namespace

Result<std::string> ChatTemplate::render(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  jinja::List list;
  for (const ChatMessage& m : messages) {
    if (!is_role(m.role)) return bad_input("message: role: expected one word such as user, got \"{}\"", to_valid_utf8(m.role));
    jinja::Value content = content_of(m);
    if (content.list() && !knows_images_)
      return bad_input("message: expected text alone, got an image or video (the model's template has none)");
    list.push_back(jinja::Dict{{{"role", m.role}, {"content", std::move(content)}}});
  }
  jinja::Dict context{{{"messages", std::move(list)},
                       {"tools", jinja::None{}},
                       {"documents", jinja::None{}},
                       {"add_generation_prompt", options.add_generation_prompt}}};
  if (options.add_vision_id) context.set("add_vision_id", true);
  if (options.enable_thinking) context.set("enable_thinking", *options.enable_thinking);
  if (!options.date.empty()) context.set("strftime_now", options.date);
  for (const auto& [name, text] : tokens_) context.set(name, text);
  return program_->render(context);
}

Result<ChatPrompt> make_prompt(const ChatTemplate& chat, const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                               const ChatOptions& options, std::span<const VisionGrid> images, std::span<const Video> videos) {
  ChatPrompt out;
  SLIP_TRY(out.text, chat.render(messages, options));
  SLIP_TRY(out.ids, tokenizer.encode(out.text));
  VisionRules rules{.image_pad = {-1}, .video_pad = {-1}};  // no id: all is text
  if (chat.takes_images()) {
    SLIP_TRY(rules, vision_rules(tokenizer));
  }
  SLIP_TRY(out.ids, expand_placeholders(out.ids, images, videos, rules));
  SLIP_TRY(out.positions, rope_positions(out.ids, images, videos, rules));
  size_t image = 0, video = 0;
  for (size_t i = 0; i < out.ids.size(); ++i) {
    if (out.ids[i] != rules.image_pad && out.ids[i] != rules.video_pad) continue;
    const VisionGrid& g = out.ids[i] == rules.image_pad ? images[image++] : videos[video++].grid;
    const int32_t tokens = g.t * (g.h / rules.merge) * (g.w / rules.merge);  // checked by the expansion
    out.vision_spans.push_back({static_cast<int32_t>(i), static_cast<int32_t>(i) + tokens});
    i += static_cast<size_t>(tokens) - 1;
  }
  return out;
}

}  // namespace slip
