// SPDX-License-Identifier: Apache-2.0
// Rendering, recognition of a folder's template, and the prompt as a whole. Positions are in chat_positions.cc.
#include "text/chat.h"

#include "base/file.h"
#include "base/json.h"

namespace slip {

namespace fs = std::filesystem;

namespace {

constexpr const char* kQwenSystem = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
constexpr const char* kPlainSystem = "You are a helpful assistant.";

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

Result<ChatTemplate> ChatTemplate::recognise(std::string_view jinja, std::string_view where) {
  if (!contains(jinja, "<|im_start|>") || !contains(jinja, "<|im_end|>")) {
    return unsupported("{}: chat_template: expected a Qwen ChatML template, got one without <|im_start|> and <|im_end|>", where);
  }
  if (contains(jinja, "<think>") || contains(jinja, "enable_thinking")) {
    return unsupported("{}: chat_template: expected one of Qwen2 or Qwen2.5, got one that handles <think> sections", where);
  }
  const bool vision = contains(jinja, "<|vision_start|>") && contains(jinja, "<|image_pad|>");
  std::string system = contains(jinja, kQwenSystem) ? kQwenSystem : contains(jinja, kPlainSystem) ? kPlainSystem : "";
  return ChatTemplate(vision ? ChatKind::kQwenVl : ChatKind::kQwenText, std::move(system));
}

Result<ChatTemplate> ChatTemplate::load(const fs::path& folder) {
  std::error_code ec;
  for (const char* name : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"}) {
    const fs::path file = folder / name;
    if (!fs::exists(file, ec)) continue;
    std::string text;
    if (file.extension() == ".jinja") {
      SLIP_TRY(text, read_file(file, size_t{1} << 22));
    } else {
      SLIP_TRY(text, template_in(file));
    }
    if (!text.empty()) return recognise(text, file.string());
  }
  return unsupported("{}: expected a chat_template in tokenizer_config.json, chat_template.json or chat_template.jinja, got none",
                     folder.string());
}

Result<std::string> ChatTemplate::render(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  std::string out;
  if (!default_system_.empty() && (messages.empty() || messages[0].role != "system")) {
    out += "<|im_start|>system\n" + default_system_ + "<|im_end|>\n";
  }
  int pictures = 0, videos = 0;
  const auto placeholder = [&](std::string_view name, int number, std::string_view pad) {
    if (options.add_vision_id) out += fmt::format("{} {}: ", name, number);
    out += fmt::format("<|vision_start|>{}<|vision_end|>", pad);
  };
  for (const ChatMessage& m : messages) {
    if (!is_role(m.role)) return bad_input("message: role: expected one word such as user, got \"{}\"", to_valid_utf8(m.role));
    out += "<|im_start|>" + m.role + "\n";
    for (const ContentItem& item : m.content) {
      if (const auto* text = std::get_if<TextItem>(&item)) {
        out += text->text;
        continue;
      }
      if (kind_ != ChatKind::kQwenVl)
        return bad_input("message: expected text alone, got an image or video (the model's template has none)");
      if (std::holds_alternative<ImageItem>(item)) {
        placeholder("Picture", ++pictures, "<|image_pad|>");
      } else {
        placeholder("Video", ++videos, "<|video_pad|>");
      }
    }
    out += "<|im_end|>\n";
  }
  if (options.add_generation_prompt) out += "<|im_start|>assistant\n";
  return out;
}

Result<ChatPrompt> make_prompt(const ChatTemplate& chat, const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                               const ChatOptions& options, std::span<const VisionGrid> images, std::span<const Video> videos) {
  ChatPrompt out;
  SLIP_TRY(out.text, chat.render(messages, options));
  SLIP_TRY(out.ids, tokenizer.encode(out.text));
  VisionRules rules{.image_pad = {-1}, .video_pad = {-1}};  // no id: all is text
  if (chat.kind() == ChatKind::kQwenVl) {
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
