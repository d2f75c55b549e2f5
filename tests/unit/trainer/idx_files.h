#pragma once

// Builds the bytes of IDX files for tests.

#include <cstdint>
#include <string>

namespace ringmaster::trainer {

inline std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

inline std::string IdxImageBytes(uint32_t count, uint32_t rows, uint32_t columns,
                                 const std::string& pixels) {
  return BigEndian(0x803) + BigEndian(count) + BigEndian(rows) + BigEndian(columns) + pixels;
}

inline std::string IdxLabelBytes(uint32_t count, const std::string& labels) {
  return BigEndian(0x801) + BigEndian(count) + labels;
}

}  // namespace ringmaster::trainer
