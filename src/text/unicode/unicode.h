// SPDX-License-Identifier: Apache-2.0
// What the tokenizer needs of Unicode: UTF-8 stepping, the classes \s and \w as the `regex` crate has them, lower case,
// NFC, and the printable stand-ins for bytes that byte-level vocabularies are written in.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace slip {

/// Length of the well-formed character that starts at `at`, 0 if there is none; Unicode 15 table 3-7.
int utf8_length(std::string_view bytes, size_t at);
/// Length of the longest prefix at `at` of some well-formed character (1 if none): one U+FFFD stands for it.
/// `may_continue`: whether the text ended before it was decided.
int utf8_ill_formed_length(std::string_view bytes, size_t at, bool& may_continue);
/// The character at `at` of valid text; `at` moves behind it.
char32_t next_character(std::string_view text, size_t& at);
/// The character that ends before `at` of valid text; `at` moves to its first byte.
char32_t previous_character(std::string_view text, size_t& at);
void append_utf8(std::string& out, char32_t c);

bool is_space(char32_t c);  // White_Space
bool is_word(char32_t c);   // Alphabetic, M, Nd, Pc, Join_Control

/// Lower case character by character as Python's str.lower() has it, but for the capital sigma at a word's end. Ill-formed bytes
/// stay.
std::string to_lower(std::string_view text);

/// NFC of valid UTF-8.
std::string nfc(std::string_view text);

/// Byte-level spelling: printable Latin-1 stands for itself, the other 68 bytes for U+0100, U+0101, ... in order.
char32_t character_of_byte(uint8_t byte);
/// -1 for a character that stands for no byte.
int byte_of_character(char32_t c);
std::string spell_bytes(std::string_view bytes);
/// The bytes that a spelling stands for; a spelling with a character outside the table stands for its own UTF-8.
std::string bytes_of_spelling(std::string_view spelling);

}  // namespace slip
