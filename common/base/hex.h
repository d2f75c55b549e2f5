#pragma once

// Formats keys, hashes and checksums as lower-case hexadecimal digits.

#include <cstdint>
#include <string>
#include <string_view>

namespace ringmaster {

std::string HexOf(std::string_view bytes);  // writes two digits per byte
std::string HexOf(uint64_t number);         // 16 digits

}  // namespace ringmaster
