// Fuzzes the decoders of checkpoints and snapshots: bytes must be rejected, or give the same result
// after they are encoded again.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "worker/trainer/checkpoint/checkpoint_folder.h"

namespace {

namespace trainer = ringmaster::trainer;

// Returns the bytes with a correct header checksum; otherwise almost no input would pass the check.
std::vector<std::byte> WithRightChecksum(std::span<const std::byte> bytes) {
  std::vector<std::byte> fixed(bytes.begin(), bytes.end());
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::size_t i = 0; i < fixed.size(); ++i) {
    if (i >= 24 && i < 32) continue;
    hash = (hash ^ static_cast<uint64_t>(fixed[i])) * 0x100000001b3ULL;
  }
  for (std::size_t i = 0; i < 8 && 24 + i < fixed.size(); ++i)
    fixed[24 + i] = static_cast<std::byte>(hash >> (8 * i));
  return fixed;
}

void TryHeader(std::span<const std::byte> bytes) {
  const auto header = trainer::DecodeShardHeader(bytes);
  if (!header.ok()) return;
  const std::vector<std::byte> again = trainer::EncodeShardHeader(*header);
  const auto decoded = trainer::DecodeShardHeader(again);
  if (!decoded.ok() || !(*decoded == *header)) std::abort();
  if (trainer::ShardDataBytes(*header).ok()) trainer::WhyOther(*header, {}, header->parts);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  TryHeader(bytes);
  TryHeader(WithRightChecksum(bytes));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto done = trainer::DecodeDone(text); done.ok()) {
    const auto again = trainer::DecodeDone(trainer::EncodeDone(*done));
    if (!again.ok() || *again != *done) std::abort();
  }
  if (const auto version = trainer::ParseCheckpointName(text); version) {
    if (trainer::CheckpointName(*version) != text) std::abort();
  }
  return 0;
}
