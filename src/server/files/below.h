// SPDX-License-Identifier: Apache-2.0
// Files below a folder that the operator names: the door through which a client's path reaches the disk. It stays shut where anything about
// the folder or the path is in doubt.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace slip::server {

/// `path` with its links resolved, where it is a regular file strictly inside of folder `root`. Nothing for any other file, and for every
/// path where `root` is empty, missing or no folder.
std::optional<std::filesystem::path> file_below(const std::filesystem::path& root, const std::filesystem::path& path);

/// An option's folder, looked at before anybody may ask for what lies in it. kBadInput for a missing one and for what is none.
Status check_folder(std::string_view option, const std::string& folder);

}  // namespace slip::server
