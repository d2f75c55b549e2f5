#include "worker/trainer/comm/nccl/staging.h"

#include <algorithm>
#include <bit>

namespace ringmaster::trainer {
namespace {

constexpr std::size_t kSmallest = 4 << 10;

}  // namespace

Result<StagingPiece> Staging::Take(std::size_t bytes) {
  {
    const MutexLock lock(mutex_);
    const auto found = std::ranges::find_if(
        free_, [&](const StagingPiece& piece) { return piece.bytes >= bytes; });
    if (found != free_.end()) {
      const StagingPiece piece = *found;
      free_.erase(found);
      return piece;
    }
  }
  StagingPiece piece{.bytes = std::bit_ceil(std::max(bytes, kSmallest))};
  const Result<void*> pinned = device_.MakePinned(piece.bytes);
  if (!pinned.ok())
    return pinned.error().WithContext("allocating page-locked memory for collectives");
  const Result<void*> memory = device_.MakeMemory(piece.bytes);
  if (!memory.ok()) return memory.error().WithContext("allocating GPU memory for collectives");
  piece.pinned = *pinned;
  piece.device = *memory;
  return piece;
}

void Staging::Return(const StagingPiece& piece) {
  const MutexLock lock(mutex_);
  free_.push_back(piece);
  std::ranges::sort(free_, {}, &StagingPiece::bytes);
}

}  // namespace ringmaster::trainer
