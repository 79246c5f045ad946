// SPDX-License-Identifier: Apache-2.0
// The part of Jinja that released chat templates use, set up as transformers does it (trim_blocks, lstrip_blocks, break and continue,
// {% generation %}). What is not known is refused when the template is read, with its line; nothing is skipped or guessed.
//
//   {{ }} {% if for set macro break continue %} {# #}, whitespace control, namespaces, slices, conditional expressions,
//   comparison chains, the filters (library.cc), tests (operators.cc) and methods (methods.cc), raise_exception, range, strftime_now.
//   Not: include, import, extends, call, filter blocks, recursive loops, printing lists and dictionaries as Python spells them.
//
// A template is part of a downloaded folder: rendering is bounded in steps, bytes and depth.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/value.h"

namespace slip::jinja {

struct Node;

class Template {
 public:
  /// kUnsupported names what is not done, kBadInput what is no Jinja; both with file and line.
  static Result<Template> compile(std::string_view text, std::string_view where);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();
  /// `context`: the names that the template sees. kBadInput carries what the template itself raises.
  Result<std::string> render(const Dict& context) const;

 private:
  Template() = default;
  std::string where_;
  std::unique_ptr<const Node> root_;
};

}  // namespace slip::jinja
