#pragma once

// Lower-case hexadecimal digits: of keys, hashes and checksums.

#include <cstdint>
#include <string>
#include <string_view>

namespace ringmaster {

std::string HexOf(std::string_view bytes);  // two digits each
std::string HexOf(uint64_t number);         // 16 digits

}  // namespace ringmaster
