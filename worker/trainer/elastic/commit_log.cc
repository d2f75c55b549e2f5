#include "worker/trainer/elastic/commit_log.h"

#include <utility>

namespace ringmaster::trainer {

using control::RankPhase;

CommitLog::CommitLog(MembershipSource& membership, TrainableState state, StepAudit& audit,
                     const SessionOptions& options)
    : membership_(membership),
      state_(std::move(state)),
      audit_(audit),
      options_(options),
      position_(*options.position) {}

void CommitLog::EnterWorld() {
  checkpoint_wanted_ = false;
  unreported_.reset();
}

void CommitLog::Applied(const World& world, const LocalState& local, Share samples,
                        const control::Progress& progress, bool snapshot) {
  if (options_.sharded != nullptr) options_.sharded->Applied(local);
  if (audit_.on()) {
    if (options_.mirror != nullptr) options_.mirror->Pull();
    const auto part =
        options_.sharded == nullptr ? std::nullopt : std::optional(options_.sharded->checksum());
    audit_.Applied(world, local.version.step, samples, Checksum(state_), part);
  }
  unreported_ = progress;
  if (options_.checkpointer == nullptr) return;
  position_.Enter(RankPhase::kEvaluate);  // copying a large state takes long
  options_.checkpointer->Applied(world, local, snapshot);
  position_.Enter(RankPhase::kUpdate);
}

void CommitLog::Committed(const World& world, const LocalState& local, RankPhase next) {
  if (!unreported_) return position_.Enter(next);
  if (world.rank == 0) membership_.Report(world, *unreported_);
  if (options_.checkpointer != nullptr) {
    position_.Enter(RankPhase::kEvaluate);  // copying a large state takes long
    options_.checkpointer->Committed(world, local, std::exchange(checkpoint_wanted_, false));
  }
  position_.Enter(next);
  unreported_.reset();
}

}  // namespace ringmaster::trainer
