// SPDX-License-Identifier: Apache-2.0
// Telling files from others of the same name and shape without reading them whole.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace slip {

/// 16 hex digits: FNV-1a of the name, the size and sixteen pieces of 4 KiB, from the beginning to the end, of each file in the order of their
/// paths; the same wherever they lie. Those that are not there count nothing. Of weights a new training changes every piece, and of a record set's
/// shard the first piece has the sum of its labels. Not a checksum: a change between the pieces is not seen.
std::string mark_of_files(std::vector<std::filesystem::path> files);

}  // namespace slip
