#include "worker/trainer/elastic_torch/session.h"

#include <array>
#include <memory>
#include <string>
#include <utility>

namespace ringmaster::trainer {
namespace {

using control::RankPhase;

SessionOptions WithPosition(SessionOptions options) {
  if (!options.position) options.position = std::make_shared<RankPosition>();
  return options;
}

}  // namespace

Session::Session(MembershipSource& membership, CommunicatorFactory make_communicator,
                 Buckets& buckets, TrainableState state, StepAudit& audit, const Clock& clock,
                 SessionOptions options)
    : membership_(membership),
      audit_(audit),
      options_(WithPosition(std::move(options))),
      worlds_(membership, std::move(make_communicator), state, audit, clock, options_),
      commits_(membership, std::move(state), audit, options_),
      step_(buckets, clock, options_, [this](RankPhase next) { Committed(next); }) {}

Result<void> Session::EnterNext(const Error& cause) {
  Result<void> entered = worlds_.Next(cause);
  leaving_ = false;
  commits_.EnterWorld();
  return entered;
}

template <typename T>
Outcome<T> Session::Change(const Error& cause) {
  worlds_.Leave(cause);
  const Result<void> entered = EnterNext(cause);
  if (!entered.ok()) return entered.error();
  return WorldChanged{};
}

int64_t Session::micro_batch() const {
  if (options_.micro_batch > 0) return options_.micro_batch;
  const int ranks = world().full_size > 0 ? world().full_size : world().size;
  return (options_.global_batch + ranks - 1) / ranks;
}

void Session::Begin() {
  audit_.Begun(world(), applied_steps() + 1, share());
  if (options_.reducer != nullptr) options_.reducer->Begin(worlds_.local().Next(world().epoch));
  StepVotes votes;
  if (membership_.SwitchWanted(world().epoch, applied_steps() + 1)) votes.leave = 1;
  part_written_ =
      options_.checkpointer == nullptr ? std::nullopt : options_.checkpointer->PartWritten();
  if (part_written_) {
    votes.parts = 1;
  } else if (options_.checkpointer != nullptr && options_.checkpointer->PartFailed()) {
    votes.parts = -static_cast<float>(world().size);  // the sum is negative whatever others vote
  }
  if (world().rank == 0 && membership_.CheckpointWanted(world().epoch)) votes.checkpoint = 1;
  if (options_.checkpointer != nullptr && world().local_rank == 0 &&
      options_.checkpointer->SnapshotDue()) {
    votes.snapshot = 1;
  }
  step_.Begin(worlds_.communicator(), worlds_.StepDeadline(), votes);
}

Outcome<StepResult> Session::Reduce() {
  const Result<ReducedStep> reduced = step_.Reduce();
  if (!reduced.ok()) {
    return Change<StepResult>(
        reduced.error().WithContext("reducing step " + std::to_string(applied_steps() + 1)));
  }
  finite_ = reduced->result.finite;
  if (!finite_ && options_.sharded != nullptr) options_.sharded->Exclude();
  leaving_ = reduced->votes.leave > 0;
  commits_.SetCheckpointRequested(reduced->votes.checkpoint > 0);
  snapshot_ = reduced->votes.snapshot >= static_cast<float>(world().workers);
  const bool all_parts = reduced->votes.parts >= static_cast<float>(world().size);
  if (part_written_ && all_parts) options_.checkpointer->PartsWritten(*part_written_);
  if (reduced->votes.parts < 0) options_.checkpointer->PartsFailed();
  return reduced->result;
}

Outcome<NotFinite> Session::FindNotFinite(const std::function<Result<void>()>& compute) {
  const Result<NotFinite> found = step_.FindNotFinite(worlds_.StepDeadline(), compute);
  if (found.ok()) return *found;
  if (!step_.broken()) return found.error();
  return Change<NotFinite>(found.error());
}

Result<void> Session::Applied(const control::Progress& progress) {
  // The reducer must not keep the residuals of a step with NaN or infinite gradients.
  if (options_.reducer != nullptr && finite_) options_.reducer->Applied();
  worlds_.Advance(/*excluded=*/!finite_);
  commits_.Applied(world(), worlds_.local(), share(), progress, snapshot_);
  if (!leaving_) return {};
  worlds_.LeaveAtBoundary();
  return EnterNext(Error{ErrorKind::kUnavailable, "no world followed"});
}

void Session::Committed(RankPhase next) { commits_.Committed(world(), worlds_.local(), next); }

Outcome<> Session::Sum(std::span<float> values) {
  position().Enter(RankPhase::kReduce);
  Communicator& communicator = worlds_.communicator();
  const Result<void> summed =
      WaitConfirmed(communicator, communicator.AllReduce(values, worlds_.StepDeadline()));
  if (!summed.ok()) return Change<Done>(summed.error());
  Committed(RankPhase::kReduce);
  return Done{};
}

// Waits for all ranks' parts of the last checkpoint, so that rank 0 can complete the checkpoint.
// The ranks tell each other repeatedly how far they are, so a slow volume exceeds no deadline.
Outcome<> Session::FinishParts() {
  if (options_.sharded == nullptr || options_.checkpointer == nullptr) return Done{};
  const StateVersion last = worlds_.local().version;
  for (;;) {
    position().Enter(RankPhase::kEvaluate);
    const bool settled =
        options_.checkpointer->FinishPart(world(), worlds_.local(), worlds_.WorldOver());
    const bool written = options_.checkpointer->PartWritten() == last;
    std::array<float, 2> ranks{settled ? 1.0F : 0.0F, written ? 1.0F : 0.0F};
    const Outcome<> summed = Sum(ranks);
    if (!summed.happened()) return summed;
    const auto all = static_cast<float>(world().size);
    if (ranks[0] < all) continue;
    if (ranks[1] >= all) {
      options_.checkpointer->PartsWritten(last);
    } else {
      options_.checkpointer->WorldEnded();
    }
    position().Enter(RankPhase::kDone);
    return Done{};
  }
}

Outcome<> Session::Finish(const control::Progress& progress) {
  position().Enter(RankPhase::kDone);
  if (Outcome<> written = FinishParts(); !written.happened()) return written;
  if (options_.checkpointer != nullptr) {
    options_.checkpointer->Finished(world(), worlds_.local(), worlds_.WorldOver());
  }
  if (!worlds_.local().TrainedHere()) membership_.NothingTrained();
  const Result<bool> released = membership_.Finish(world(), progress);
  if (!released.ok()) return released.error();
  if (*released) return Done{};
  return Change<Done>(Error{ErrorKind::kCancelled, "the world has ended"});
}

}  // namespace ringmaster::trainer
