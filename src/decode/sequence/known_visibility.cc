// SPDX-License-Identifier: Apache-2.0
// Keyed by address and by all that the tables are a function of: another form may come to lie where an earlier one was.
#include "decode/sequence/known_visibility.h"

#include <vector>

namespace slip {
namespace {

struct Known {
  const Form* form = nullptr;
  std::vector<int32_t> key;
  std::shared_ptr<const GraphVisibility> visibility;
};

void key_of(const Form& form, std::vector<int32_t>& key) {
  key.clear();
  for (const Piece& piece : form.pieces()) {
    const auto* run = std::get_if<FixedRun>(&piece);
    key.push_back(run ? static_cast<int32_t>(run->ids.size()) : -1);
  }
  for (size_t p = 0; form.branches() && p < form.pieces().size(); ++p) key.push_back(form.next_piece(static_cast<int32_t>(p)));
  for (const Field& f : form.fields()) {
    key.push_back(f.start);
    key.push_back(f.budget);
    key.push_back(f.instance_of && form.leaves_out() ? f.instance_of->field : -1);  // its hand-off
    key.push_back(f.leaves_out);
    key.push_back(static_cast<int32_t>(f.parents.size()));
    key.insert(key.end(), f.parents.begin(), f.parents.end());
    key.push_back(static_cast<int32_t>(f.exits.size()));
    for (const Exit& e : f.exits) key.push_back(e.piece);
  }
}

}  // namespace

std::shared_ptr<const GraphVisibility> known_visibility(const Form& form) {
  thread_local Known known;
  thread_local std::vector<int32_t> key;
  key_of(form, key);
  if (known.form != &form || known.key != key) known = {&form, key, std::make_shared<const GraphVisibility>(form)};
  return known.visibility;
}

}  // namespace slip
