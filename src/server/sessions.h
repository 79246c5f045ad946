// SPDX-License-Identifier: Apache-2.0
// The last answer of each session, which drafts its next one. The longest unused are forgotten; an answer never depends on it.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "slipstream/answer.h"

namespace slip::server {

class Sessions {
 public:
  explicit Sessions(size_t most = 1024) : most_(most) {}
  std::shared_ptr<const slipstream::Answer> last(const std::string& session) {
    const std::lock_guard lock(mutex_);
    const auto at = by_name_.find(session);
    if (at == by_name_.end()) return nullptr;
    order_.splice(order_.end(), order_, at->second);
    return at->second->second;
  }
  void keep(const std::string& session, std::shared_ptr<const slipstream::Answer> answer) {
    const std::lock_guard lock(mutex_);
    drop(session);
    order_.emplace_back(session, std::move(answer));
    by_name_[session] = std::prev(order_.end());
    if (order_.size() > most_) drop(std::string(order_.front().first));
  }
  void forget(const std::string& session) {
    const std::lock_guard lock(mutex_);
    drop(session);
  }

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const slipstream::Answer>>;
  void drop(const std::string& session) {
    const auto at = by_name_.find(session);
    if (at == by_name_.end()) return;
    order_.erase(at->second);
    by_name_.erase(at);
  }
  std::mutex mutex_;
  size_t most_;
  std::list<Entry> order_;
  std::unordered_map<std::string, std::list<Entry>::iterator> by_name_;
};

}  // namespace slip::server
