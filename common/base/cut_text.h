#pragma once

// Shortens texts and lists in messages to a limit.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ringmaster {

// At most `most_bytes` of a UTF-8 text, never cut within a character.
std::string CutText(std::string text, std::size_t most_bytes);

// "a, b", or with more items than `most` "a, b and 3 more". Empty without items.
std::string ListText(std::span<const std::string> items, std::size_t most = SIZE_MAX);

}  // namespace ringmaster
