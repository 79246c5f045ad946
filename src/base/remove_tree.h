// SPDX-License-Identifier: Apache-2.0
// Removing a file or folder where memory and descriptors are scarce.
#pragma once
#include <filesystem>

namespace slip {

/// Removes a file, or a folder with all that is in it; links are removed and not followed. Holds one descriptor at most, none for what is
/// no folder or is empty. False where something stays.
bool remove_tree(const std::filesystem::path& path) noexcept;

}  // namespace slip
