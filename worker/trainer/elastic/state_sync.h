#pragma once

// Brings the ranks of a new world to the same state. Each rank reports its version; the highest one
// wins, and the lowest rank that has it sends it to the others in bounded pieces. They receive into
// separate memory and adopt the state only when it is complete and its checksum matches, so a
// failed attempt changes nothing.

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

// What all ranks have after a sync.
struct Adopted {
  LocalState held;
  uint64_t checksum = 0;
  int source = -1;                    // the rank that sent it; -1: none was behind
  bool changed = false;               // this rank was behind
  std::optional<uint64_t> sharded{};  // checksum of the sharded state, where there is one
};

// One attempt. Owns the memory that its operations work on: after a failure it lives until the
// communicator has ended. Thread-safety: one thread.
class StateSync {
 public:
  struct Options {
    uint64_t fingerprint = 0;  // of what must be the same on all ranks, beside the state
    std::chrono::milliseconds timeout{30'000};  // of each operation
    std::size_t piece_bytes = 4 << 20;
    std::function<void(int piece)> moving{};  // called before each piece of a state that travels
    // Called on every rank if none has trained: returns what it holds after looking for saved state
    // again. A rank that loaded long ago must not win with an old checkpoint. kUnavailable: the
    // saved state cannot be read here now. Another rank's is as good; while none can read it, all
    // of them wait and look again.
    std::function<Result<LocalState>(const LocalState& held)> look_again{};
    std::function<void(int attempt)> pause{};
    StateMirror* mirror = nullptr;  // null: the state is in host memory
  };

  StateSync(TrainableState state, const LocalState& held, const Clock& clock,
            const Options& options);

  // Call on every rank of the communicator. kInvalid on all ranks: they cannot train together
  // (other flags, or another state of the same version), and which rank differs. Other errors are
  // the communicator's, or kUnavailable for a state that arrived damaged; the state is unchanged.
  Result<Adopted> Run(Communicator& communicator);

 private:
  struct Statement {
    uint64_t fingerprint = 0;
    uint64_t checksum = 0;
    uint64_t unread = 0;  // what is kept could not be read here
    LocalState held;
  };

  Result<void> Gather(Communicator& communicator);
  Result<void> LookAgain(Communicator& communicator);
  // The lowest rank of the highest version; kInvalid as above.
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
