#include "worker/trainer/elastic/state_sync.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/count_text.h"

namespace ringmaster::trainer {
namespace {

Error Differs(std::size_t rank, std::size_t other, const std::string& what) {
  return {ErrorKind::kInvalid,
          "rank " + std::to_string(rank) + " has " + what + " than rank " + std::to_string(other)};
}

uint64_t ChecksumOf(const TrainableState& state, StateMirror* mirror) {
  if (mirror != nullptr) mirror->Pull();
  return Checksum(state);
}

uint64_t WithSizes(uint64_t fingerprint, const TrainableState& state) {
  for (const auto& values : state) fingerprint = fingerprint * 31 + values.size();
  return fingerprint;
}

}  // namespace

StateSync::StateSync(TrainableState state, const LocalState& held, const Clock& clock,
                     const Options& options)
    : state_(std::move(state)),
      clock_(clock),
      options_(options),
      mine_{.fingerprint = WithSizes(options.fingerprint, state_),
            .checksum = ChecksumOf(state_, options.mirror),
            .unread = 0,
            .held = held} {}

Result<Adopted> StateSync::Run(Communicator& communicator) {
  if (Result<void> gathered = Gather(communicator); !gathered.ok()) return gathered.error();
  const bool untrained = std::none_of(all_.begin(), all_.end(), [](const Statement& statement) {
    return statement.held.origin == StateOrigin::kTraining;
  });
  if (untrained) {
    if (Result<void> again = LookAgain(communicator); !again.ok()) return again.error();
  }
  const Result<std::size_t> winner = Winner();
  if (!winner.ok()) return winner.error();
  const Statement& best = all_[*winner];
  Adopted adopted{.held = best.held, .checksum = best.checksum};
  const bool in_sync = std::all_of(all_.begin(), all_.end(), [&](const Statement& statement) {
    return statement.held.version == best.held.version;
  });
  if (in_sync) return adopted;
  adopted.source = static_cast<int>(*winner);
  adopted.changed = mine_.held.version != best.held.version;
  const Result<void> moved = communicator.rank() == adopted.source
                                 ? Send(communicator, adopted.source)
                                 : Receive(communicator, adopted.source);
  if (!moved.ok()) return moved.error().WithContext("synchronizing the state of all ranks");
  return adopted;
}

Result<void> StateSync::Gather(Communicator& communicator) {
  all_.resize(static_cast<std::size_t>(communicator.size()));
  return WaitConfirmed(communicator, communicator.AllGather(std::as_bytes(std::span(&mine_, 1)),
                                                            std::as_writable_bytes(std::span(all_)),
                                                            clock_.Now() + options_.timeout));
}

Result<void> StateSync::LookAgain(Communicator& communicator) {
  if (!options_.look_again) return Gather(communicator);
  for (int attempt = 0;; ++attempt) {
    const Result<LocalState> held = options_.look_again(mine_.held);
    if (!held.ok() && held.error().kind != ErrorKind::kUnavailable) return held.error();
    mine_.unread = held.ok() ? 0 : 1;
    if (held.ok()) {
      mine_.held = *held;
      mine_.checksum = ChecksumOf(state_, options_.mirror);
    }
    if (Result<void> gathered = Gather(communicator); !gathered.ok()) return gathered;
    const bool read =
        std::any_of(all_.begin(), all_.end(), [](const Statement& one) { return one.unread == 0; });
    if (read) return {};
    options_.pause(attempt);
  }
}

Result<std::size_t> StateSync::Winner() const {
  std::size_t winner = 0;
  for (std::size_t rank = 1; rank < all_.size(); ++rank) {
    if (all_[rank].fingerprint != all_[0].fingerprint) {
      return Differs(rank, 0,
                     "other flags or other data (run the same command with the same data on every "
                     "rank)");
    }
    if (Outranks(all_[rank].held, all_[winner].held)) winner = rank;
  }
  for (std::size_t rank = 0; rank < all_.size(); ++rank) {
    const bool same = all_[rank].held.version == all_[winner].held.version;
    if (same && all_[rank].checksum != all_[winner].checksum) {
      return Differs(rank, winner,
                     "different parameters after the same " +
                         CountText(all_[winner].held.version.step, "step"));
    }
  }
  return winner;
}

Result<void> StateSync::Send(Communicator& communicator, int source) {
  for (const std::span<float> values : state_) {
    const Result<void> sent = Broadcast(communicator, std::as_writable_bytes(values), source);
    if (!sent.ok()) return sent.error();
  }
  return {};
}

// A broadcast also sends the state to ranks that already have it; these ranks drop it.
Result<void> StateSync::Receive(Communicator& communicator, int source) {
  for (const std::span<float> values : state_) {
    staged_.emplace_back(values.size());
    const Result<void> received =
        Broadcast(communicator, std::as_writable_bytes(std::span(staged_.back())), source);
    if (!received.ok()) return received.error();
  }
  const Statement& sent = all_[static_cast<std::size_t>(source)];
  if (Checksum(TrainableState(staged_.begin(), staged_.end())) != sent.checksum) {
    return Error{ErrorKind::kUnavailable, "the state that rank " + std::to_string(source) +
                                              " sent was corrupted in transit"};
  }
  if (mine_.held.version == sent.held.version) return {};
  for (std::size_t i = 0; i < state_.size(); ++i) {
    std::copy(staged_[i].begin(), staged_[i].end(), state_[i].begin());
  }
  if (options_.mirror != nullptr) options_.mirror->Push();
  return {};
}

Result<void> StateSync::Broadcast(Communicator& communicator, std::span<std::byte> bytes,
                                  int source) {
  while (!bytes.empty()) {
    if (options_.moving) options_.moving(pieces_++);
    const std::span<std::byte> piece = bytes.first(std::min(bytes.size(), options_.piece_bytes));
    const Result<void> done =
        communicator.Broadcast(piece, source, clock_.Now() + options_.timeout)->Wait();
    if (!done.ok()) return done.error();
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

}  // namespace ringmaster::trainer
