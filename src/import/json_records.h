// SPDX-License-Identifier: Apache-2.0
// Data sets that are a JSON array or JSON lines, with pictures in files beside them; and one of them, steps of a robot's episodes as OpenVLA is
// tuned on them:
//   {"image": "a.png" (or "images": [..]), "instruction": "pick up the cup", "action": [0.1, 0, -0.2, 0, 0, 0.3, 1]}
// Actions are in real units. Paths are relative to the file's folder and stay in it. Other keys are left alone.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace slip {

/// Every record of a file, one after the other, with its line (of JSON lines) or number (of an array), from 1. A byte-order mark, CRLF and
/// blank lines pass. An error of `take` ends the reading.
Status each_json_record(const std::filesystem::path& file,
                        const std::function<Status(const json::value&, std::string_view where, int64_t bytes_done)>& take);

/// What a record names as "image" or "images": a path or an array of paths each.
Result<std::vector<std::string>> picture_names(const json::object& record, std::string_view where);
/// A path that stays inside of the folder of pictures, or kBadInput.
Result<std::string> picture_path(const std::string& path, std::string_view where);

struct RobotStep {
  std::vector<std::string> pictures;  // 1 to 16
  std::string instruction;            // not empty
  std::vector<double> action;         // 1 to 256 finite numbers
};

/// One record. `where` opens messages ("FILE: line 3").
Result<RobotStep> parse_robot_step(const json::value& v, std::string_view where);
/// Every step of a file: each_json_record. Pictures are files that exist; nobody has looked into them.
Status each_robot_step(const std::filesystem::path& file, const std::function<Status(RobotStep&&, std::string_view where)>& take);

}  // namespace slip
