// SPDX-License-Identifier: Apache-2.0
// A file of lines that is written over more than one run: what is there stays, new lines go behind it.
#pragma once
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "base/files/beside.h"
#include "base/result.h"

namespace slip {

/// Gets a line without its end, and its number from 1.
using TakeLine = std::function<Status(std::string_view line, int64_t number)>;
/// The whole lines of a text, one by one; how many bytes they are together. What `take` returns where that is an error.
Result<size_t> whole_lines(std::string_view text, const TakeLine& take);

class LineFile {
 public:
  /// Makes the file and its folders where they are missing. A last line without an end, which a kill has left, is cut off if it begins as all lines
  /// do (`beginning`: as far as it goes). A pipe or a device is written to and has no lines. `take` gets the lines that are there. kBadInput where the
  /// file cannot be written, another process is writing it, or its end is nothing that a kill left; what `take` returns.
  static Result<LineFile> open(const std::filesystem::path& file, std::string_view beginning, const TakeLine& take);
  /// Appends a line and hands it to the system at once, whole. kResource where that fails.
  Status add(std::string_view line);
  /// Has the disk keep what was added.
  Status sync();

 private:
  std::filesystem::path file_;
  Held held_;
};

}  // namespace slip
