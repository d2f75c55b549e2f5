#pragma once

// Shortens texts and lists in messages to a limit.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ringmaster {

// Shortens a UTF-8 text to at most `most_bytes` without splitting a character.
std::string CutText(std::string text, std::size_t most_bytes);

// Joins items: "a, b", or "a, b and 3 more" if there are more than `most`. Empty without items.
std::string ListText(std::span<const std::string> items, std::size_t most = SIZE_MAX);

}  // namespace ringmaster
