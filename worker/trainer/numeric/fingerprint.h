#pragma once

// Combines values that must be equal on every rank into one number (FNV-1a by Fowler, Noll and Vo
// for words and characters, and the mixing of checksum_words.h for data). It detects mistakes but
// does not protect against attackers.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "worker/trainer/numeric/checksum_words.h"

namespace ringmaster::trainer {

class Fingerprint {
 public:
  Fingerprint() = default;
  // Continues another fingerprint.
  explicit Fingerprint(uint64_t value) : value_(value) {}

  void Add(uint64_t word) { value_ = (value_ ^ word) * 0x100000001b3ULL; }
  void Add(std::string_view text) {
    for (const char c : text) Add(static_cast<uint64_t>(static_cast<unsigned char>(c)));
  }
  // Adds an array of bytes, eight bytes at a time.
  void Add(std::span<const uint8_t> bytes) {
    Add(uint64_t{bytes.size()});
    std::size_t at = 0;
    for (; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, sizeof(word));
      value_ = MixChecksum(value_, word);
    }
    for (; at < bytes.size(); ++at) value_ = MixChecksum(value_, bytes[at]);
  }

  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325ULL;
};

}  // namespace ringmaster::trainer
