#pragma once

// Reads untrusted text by characters, for output on terminals and in logs. Pure functions.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ringmaster {

struct Character {
  int32_t code = -1;      // Unicode code point; -1: the byte is not valid UTF-8
  std::size_t bytes = 1;  // its length in the text

  // Returns true for control characters (C0, DEL and C1) and for invalid UTF-8.
  bool IsControl() const { return code < 0x20 || (code >= 0x7F && code < 0xA0); }
};

// Returns the first character of a text. REQUIRES: !text.empty().
Character FirstCharacter(std::string_view text);

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace ringmaster
