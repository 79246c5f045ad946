// SPDX-License-Identifier: Apache-2.0
// Inside of schema.h: the walk over a schema's tree in order, into text and fields. Keywords are an allow-list per kind of node: what
// is not known is refused by name and place, since a keyword silently dropped would be a promise broken.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "form/schema/text.h"
#include "form/schema/typed/typed.h"

namespace slip {

class SchemaReader {
 public:
  explicit SchemaReader(std::string_view form) : form_(form) {}
  Result<FormText> read(const json::value& schema);

 private:
  using Keys = std::initializer_list<std::string_view>;

  /// What a node hands down to those below it.
  struct Inherited {
    std::string name, path, label;
    int32_t section = 0;
    std::vector<std::string> parents;
    bool in_array = false, in_text = false;
    int depth = 0;
    std::optional<std::vector<int32_t>> after;  // in an array: the fields that close the item before, instead of `parents`
    std::optional<int32_t> before_array;        // the field before the array, -1 if none
    std::optional<std::string> instance_of;
    std::optional<int64_t> instance;
  };

  std::string where(const Inherited& at) const { return fmt::format("form {}: {}", form_, at.path); }
  bool json_text() const { return out_.layout == Layout::kJson; }
  /// Where the text need not be JSON.
  bool in_text(const Inherited& at) const { return at.in_text || !json_text(); }
  bool on_line(const Inherited& at) const { return out_.layout == Layout::kLines && !at.in_text; }

  // ---- the tree (read.cc)
  Status fits(const Inherited& at) const;
  Status layout(const json::value& schema, const Inherited& root);
  Status only_keys(const json::object& o, const Inherited& at, Keys known) const;
  Status parents(const json::object& o, Inherited& at);
  Status inherit_instance(const json::object& o, Inherited& at) const;
  Status node(const json::value& schema, Inherited at);
  Status value(const json::object& o, const Inherited& at);
  Status content(const json::object& o, Inherited at);
  Status array(const json::object& o, Inherited at);
  Status items(const json::value& item, const Inherited& at, int64_t count, const std::string& separator, bool independent);
  Status object(const json::object& o, Inherited at);
  Status enter_line(const json::value& member, const std::string& key, Inherited& at) const;
  Status enter_section(const json::value& member, Inherited& at);
  Status required_exist(const json::object& o, const json::object& properties, const Inherited& at) const;

  // ---- fixed text
  void write(std::string_view text, const Inherited& at);
  /// Tokens by their vocabulary's spelling: o[key], where there is one.
  Status write_tokens(const json::object& o, const char* key, const Inherited& at);
  /// A value of its own line: "label:", what `value` writes, a line break. Otherwise what `value` writes, in quotes where asked.
  void open(const Inherited& at, bool quoted) { write(on_line(at) ? at.label + ":" : quoted && json_text() ? "\"" : "", at); }
  void close(const Inherited& at, bool quoted) { write(on_line(at) ? "\n" : quoted && json_text() ? "\"" : "", at); }

  // ---- values (leaves.cc)
  Status field(FieldSpec spec, const Inherited& at);
  Status instance(const Inherited& at, FieldSpec& spec) const;
  Status optional_instance(const Inherited& at, FieldSpec& spec) const;
  bool of_optional(const Inherited& at) const;
  Status enumeration(const json::object& o, const Inherited& at, FieldSpec& spec) const;
  Status budget(const json::object& o, const Inherited& at, FieldSpec& spec) const;
  Status constant(const json::object& o, const Inherited& at);
  Status choice(const json::object& o, const Inherited& at);
  Status aliases(const json::object& o, const Inherited& at, ChoiceSpec& choice) const;
  Status boolean(const json::object& o, const Inherited& at);
  Status text(const json::object& o, const Inherited& at);
  Status number(const json::object& o, const Inherited& at);
  Status bins(const json::object& o, const Inherited& at, int64_t count);

  std::string form_;
  FormText out_;
  std::vector<int32_t> last_;  // the fields that close the array, item or member just read
  int64_t positions_ = 0, text_bytes_ = 0, rules_ = 0;
};

/// Quotes, backslashes and control characters; a form's text holds none of them.
bool has_control(std::string_view s);
bool needs_escape(std::string_view s);

}  // namespace slip
