#include "common/control/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace ringmaster::control {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> MakeReverse() {
  std::array<int8_t, 256> reverse{};
  reverse.fill(-1);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    reverse[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
  }
  return reverse;
}
constexpr std::array<int8_t, 256> kReverse = MakeReverse();

}  // namespace

std::string EncodeBase64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= count ? kAlphabet[group >> (18 - 6 * k) & 63U] : '=';
    }
  }
  return text;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const std::size_t padding = !last ? 0 : text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
    uint32_t group = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const int8_t digit = k < 4 - padding ? kReverse[static_cast<unsigned char>(text[i + k])] : 0;
      if (digit < 0) return std::nullopt;
      group = group << 6 | static_cast<uint32_t>(digit);
    }
    // Bits that padding cuts off must be zero, or two texts would mean the same bytes.
    if ((group & ((1U << (8 * padding)) - 1)) != 0) return std::nullopt;
    for (std::size_t k = 0; k < 3 - padding; ++k) {
      bytes += static_cast<char>(group >> (16 - 8 * k) & 255U);
    }
  }
  return bytes;
}

}  // namespace ringmaster::control
