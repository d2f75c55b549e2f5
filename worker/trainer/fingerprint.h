#pragma once

// Folds what must be the same on every rank into one number (FNV-1a, Fowler, Noll and Vo, over
// words or characters). Equal inputs have equal fingerprints; it finds mistakes, and guards against
// no attacker.

#include <cstdint>
#include <string_view>

namespace ringmaster::trainer {

class Fingerprint {
 public:
  Fingerprint() = default;
  // Goes on from another one.
  explicit Fingerprint(uint64_t value) : value_(value) {}

  void Add(uint64_t word) { value_ = (value_ ^ word) * 0x100000001b3ULL; }
  void Add(std::string_view text) {
    for (const char c : text) Add(static_cast<uint64_t>(static_cast<unsigned char>(c)));
  }
  // Of a set of labelled images: size() and Label(index).
  template <typename Images>
  void AddLabels(const Images& images) {
    Add(static_cast<uint64_t>(images.size()));
    for (int64_t i = 0; i < images.size(); ++i) Add(static_cast<uint64_t>(images.Label(i)));
  }

  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325ULL;
};

}  // namespace ringmaster::trainer
