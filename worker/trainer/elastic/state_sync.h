#pragma once

// Brings the ranks of a new world to the same state. Each rank reports its version. The highest
// version wins, and the lowest rank that has it sends its state to the others in pieces of limited
// size. The others receive it into separate memory and adopt it only if it is complete and its
// checksum matches, so a failed attempt changes nothing.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/elastic/state_mirror.h"
#include "worker/trainer/elastic/state_version.h"
#include "worker/trainer/numeric/checksum.h"

namespace ringmaster::trainer {

// The state that all ranks have after a sync.
struct Adopted {
  LocalState held;
  uint64_t checksum = 0;
  int source = -1;                    // the rank that sent the state; -1: no rank was behind
  bool changed = false;               // whether this rank was behind
  std::optional<uint64_t> sharded{};  // checksum of the sharded state, if any
};

// One attempt to synchronise. Owns the memory that its operations use, so after a failure this
// object must exist until the communicator has ended. Not thread-safe.
class StateSync {
 public:
  struct Options {
    uint64_t fingerprint = 0;  // hash of flags, data and versions, which must be equal on all ranks
    std::chrono::milliseconds timeout{30'000};  // time limit for each operation
    std::size_t piece_bytes = 4 << 20;
    std::function<void(int piece)> moving{};  // called before each piece of the state is sent
    // Called on every rank if no rank has trained. Looks for saved state again, because the loaded
    // state may be outdated, and returns the rank's new state. kUnavailable: this rank cannot read
    // the saved state now. One rank that can read it is enough; until there is one, all ranks wait
    // and look again.
    std::function<Result<LocalState>(const LocalState& held)> look_again{};
    std::function<void(int attempt)> pause{};
    StateMirror* mirror = nullptr;  // null: the state is in host memory
  };

  StateSync(TrainableState state, const LocalState& held, const Clock& clock,
            const Options& options);

  // Brings all ranks to one state; call it on every rank. kInvalid on all ranks: they cannot train
  // together, because flags, or states of the same version, differ; the message names a rank. Other
  // errors are the communicator's, or kUnavailable: the state arrived damaged and was not adopted.
  Result<Adopted> Run(Communicator& communicator);

 private:
  struct Statement {
    uint64_t fingerprint = 0;
    uint64_t checksum = 0;
    uint64_t unread = 0;  // 1: this rank could not read the saved state
    LocalState held;
  };

  Result<void> Gather(Communicator& communicator);
  Result<void> LookAgain(Communicator& communicator);
  // Returns the lowest rank that has the winning state. kInvalid: see Run().
  Result<std::size_t> Winner() const;
  Result<void> Send(Communicator& communicator, int source);
  Result<void> Receive(Communicator& communicator, int source);
  Result<void> Broadcast(Communicator& communicator, std::span<std::byte> bytes, int source);

  const TrainableState state_;
  const Clock& clock_;
  const Options options_;
  Statement mine_;
  std::vector<Statement> all_;  // by rank
  std::vector<std::vector<float>> staged_;
  int pieces_ = 0;
};

}  // namespace ringmaster::trainer
