// SPDX-License-Identifier: Apache-2.0
// A trie over bytes. Contents are valid UTF-8, so a match in valid text starts and ends between characters.
#include "text/added_tokens.h"

#include "text/unicode/unicode.h"

namespace slip {

AddedTokenMatcher::AddedTokenMatcher() : nodes_(1) { root_.fill(-1); }

void AddedTokenMatcher::add(std::string_view content, const AddedToken& token) {
  if (content.empty()) return;
  int node = 0;
  for (const char c : content) {
    const auto [it, fresh] =
        nodes_[static_cast<size_t>(node)].next.try_emplace(static_cast<uint8_t>(c), static_cast<int>(nodes_.size()));
    node = it->second;
    if (fresh) nodes_.emplace_back();
  }
  root_[static_cast<uint8_t>(content[0])] = nodes_[0].next[static_cast<uint8_t>(content[0])];
  nodes_[static_cast<size_t>(node)].token = static_cast<int>(tokens_.size());
  tokens_.push_back(token);
}

int AddedTokenMatcher::longest(std::string_view text, size_t at, size_t& end) const {
  int node = root_[static_cast<uint8_t>(text[at])], found = -1;
  while (node >= 0) {
    ++at;
    const Node& n = nodes_[static_cast<size_t>(node)];
    if (n.token >= 0) {
      found = n.token;
      end = at;
    }
    if (at == text.size()) break;
    const auto it = n.next.find(static_cast<uint8_t>(text[at]));
    node = it == n.next.end() ? -1 : it->second;
  }
  return found;
}

void AddedTokenMatcher::split(std::string_view text, const std::function<void(std::string_view, const AddedToken*)>& part) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at, end = 0;
    const int found = longest(text, at, end);
    if (found < 0) {
      ++at;
      continue;
    }
    at = end;                    // also when the match is dropped below: that frees no shorter one
    if (begin < done) continue;  // swallowed by the one before
    const AddedToken& token = tokens_[static_cast<size_t>(found)];
    if (token.single_word) {
      size_t before = begin, after = end;
      if (begin > 0 && is_word(previous_character(text, before))) continue;
      if (end < text.size() && is_word(next_character(text, after))) continue;
    }
    if (token.lstrip) {
      for (size_t left = begin; begin > done; begin = left) {
        if (!is_space(previous_character(text, left))) break;
      }
    }
    if (token.rstrip) {
      for (size_t right = end; end < text.size(); end = right) {
        if (!is_space(next_character(text, right))) break;
      }
    }
    if (begin > done) part(text.substr(done, begin - done), nullptr);
    part(text.substr(begin, end - begin), &token);
    done = end;
  }
  if (done < text.size()) part(text.substr(done), nullptr);
}

}  // namespace slip
