#include "worker/trainer/elastic/world_entry.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "common/base/backoff.h"
#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

using control::RankPhase;

constexpr std::chrono::milliseconds kPausePiece{20};
constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{5'000};
constexpr int kQuickLooks = 20;  // number of KeepOther()'s polls before its pauses grow

}  // namespace

std::chrono::milliseconds PauseAfter(int looks, std::chrono::milliseconds timeout) {
  return BackoffDelay({.initial = kFirstPause, .limit = std::min(kLongestPause, timeout / 4)},
                      looks, 0.0);
}

WorldEntry::WorldEntry(MembershipSource& membership, CommunicatorFactory make_communicator,
                       TrainableState state, StepAudit& audit, const Clock& clock,
                       const SessionOptions& options)
    : membership_(membership),
      make_communicator_(std::move(make_communicator)),
      state_(std::move(state)),
      audit_(audit),
      clock_(clock),
      options_(options),
      position_(*options.position) {}

Result<void> WorldEntry::Join() {
  if (options_.checkpointer != nullptr) {
    // Load now, while no rank waits. A failure matters only if no rank of a world has a state.
    const Result<LocalState> restored = options_.checkpointer->Restore(local_, /*to_begin=*/false);
    if (restored.ok()) {
      local_ = *restored;
    } else {
      LogWarn("Failed to load a checkpoint", {{"reason", restored.error().message}});
    }
  }
  return Next(Error{ErrorKind::kUnavailable, "no world followed"});
}

// Tries one world after another until this rank has entered one.
Result<void> WorldEntry::Next(const Error& cause) {
  Error last = cause;
  for (;;) {
    position_.Enter(RankPhase::kWait);
    if (options_.device_works) {
      if (Result<void> works = options_.device_works(); !works.ok()) return works;
    }
    Result<World> next = membership_.AwaitWorld(world_.epoch);
    if (!next.ok() && next.error().kind == ErrorKind::kNotFound) {
      end_ = membership_.Done() ? SessionEnd::kDone : SessionEnd::kPeerLost;
      return membership_.Done() ? next.error() : last;
    }
    if (!next.ok()) return next.error().WithContext("waiting for the next world");
    world_ = *std::move(next);
    world_.waits_for = [position = options_.position](int peer) { position->WaitsFor(peer); };
    world_.comes_to = [position = options_.position](control::ConnectStage stage) {
      position->ComesTo(stage);
    };
    world_.counts = [position = options_.position](const control::CollectiveCounts& counts) {
      position->Counts(counts);
    };
    const Result<void> entered = Enter();
    if (entered.ok()) return {};
    last = entered.error();
    if (last.kind == ErrorKind::kInvalid || last.kind == ErrorKind::kInternal) return last;
  }
}

Result<void> WorldEntry::Enter() {
  const auto start = clock_.Now();
  position_.EnterWorld(world_.epoch);
  Result<std::unique_ptr<Communicator>> made = make_communicator_(world_, StepDeadline());
  if (!made.ok()) return made.error();
  communicator_ = *std::move(made);
  world_over_ = std::make_shared<std::atomic<bool>>(false);
  membership_.Watch(world_.epoch, [communicator = communicator_.get(),
                                   over = world_over_](const std::string& reason) {
    *over = true;
    communicator->Abort(reason);
  });
  Result<Adopted> adopted = Sync();
  ReportUnreadable("");
  if (adopted.ok() && local_.origin == StateOrigin::kOther) {
    if (const Result<void> kept = KeepOther(); !kept.ok()) adopted = kept.error();
  }
  if (!adopted.ok()) {
    Leave(adopted.error());  // destroys the communicator before the memory that its operations use
    return adopted.error();
  }
  sync_.reset();
  resumed_.reset();
  if (*NameOf(local_.origin) != '\0') resumed_ = local_;
  position_.SetStep(local_.version.step);
  if (options_.checkpointer != nullptr) {
    ReportBeginning();
    options_.checkpointer->Committed(world_, local_);
  }
  std::string residuals;
  if (options_.reducer != nullptr) {
    residuals = options_.reducer->EnterWorld(*communicator_, world_, *adopted);
  }
  audit_.Entered(world_, options_.global_batch, *adopted, residuals);
  if (options_.entered) options_.entered(world_);
  LogInfo("Entered a world",
          {{"term", world_.epoch.term},
           {"number", world_.epoch.number},
           {"rank", world_.rank},
           {"size", world_.size},
           {"step", local_.version.step},
           {"took_over", adopted->changed},
           {"millis",
            std::chrono::duration_cast<std::chrono::milliseconds>(clock_.Now() - start).count()}});
  return {};
}

// Brings all ranks to the same state, including the sharded state, and returns that state.
Result<Adopted> WorldEntry::Sync() {
  Result<Adopted> adopted = SyncReplicated();
  if (!adopted.ok() || options_.sharded == nullptr) return adopted;
  const Result<ShardedOutcome> outcome = SyncSharded();
  if (!outcome.ok()) return outcome.error();
  if (!outcome->lost.empty()) return RollBack(outcome->lost);
  adopted->sharded = outcome->checksum;
  return adopted;
}

Result<Adopted> WorldEntry::SyncReplicated() {
  StateSync::Options how{.fingerprint = options_.fingerprint,
                         .timeout = options_.timeout,
                         .moving = [this](int piece) { position_.Enter(RankPhase::kAdopt, piece); },
                         .mirror = options_.mirror};
  if (options_.checkpointer != nullptr) {
    how.look_again = [this](const LocalState& local) { return LookAgain(local); };
    how.pause = [this](int attempt) { Pause(attempt); };
  }
  sync_ = std::make_unique<StateSync>(state_, local_, clock_, how);
  Result<Adopted> adopted = sync_->Run(*communicator_);
  if (adopted.ok()) local_ = adopted->held;
  return adopted;
}

Result<LocalState> WorldEntry::LookAgain(const LocalState& local) {
  position_.Enter(RankPhase::kEvaluate);  // reading a large state takes long
  Result<LocalState> restored = options_.checkpointer->Restore(local, /*to_begin=*/true);
  if (restored.ok()) local_ = *restored;
  const bool not_now = !restored.ok() && restored.error().kind == ErrorKind::kUnavailable;
  if (not_now && !unreadable_)
    LogWarn("Failed to read the saved state, retrying", {{"reason", restored.error().message}});
  ReportUnreadable(not_now ? restored.error().message : "");
  return restored;
}

// A world that starts from another job's state first saves it as this job's checkpoint, so that
// this job no longer depends on the other one.
Result<void> WorldEntry::KeepOther() {
  for (int attempt = 0;; ++attempt) {
    position_.Enter(RankPhase::kEvaluate);
    const bool complete = options_.checkpointer->KeepOther(world_, local_);
    const std::optional<StateVersion> part = options_.checkpointer->PartWritten();
    kept_ = {complete ? 1.0F : 0.0F, part ? 1.0F : 0.0F};
    const Result<void> summed =
        WaitConfirmed(*communicator_, communicator_->AllReduce(kept_, StepDeadline()));
    if (!summed.ok())
      return summed.error().WithContext(
          "saving the state of another job as a checkpoint of this job");
    if (kept_[0] > 0) return {};
    if (part && kept_[1] >= static_cast<float>(world_.size))
      options_.checkpointer->PartsWritten(*part);
    Pause(attempt - kQuickLooks);
  }
}

// Rank 0 reports the state with which the world began, unless its ranks had trained before. Without
// this report, a launcher that starts with this world would not know of any checkpoint.
void WorldEntry::ReportBeginning() {
  if (world_.rank != 0 || local_.origin == StateOrigin::kTraining) return;
  Beginning told{.version = local_.version,
                 .text = {},
                 .kept = options_.checkpointer->NewestKept(local_.version)};
  const std::optional<Beginning>& beginning = options_.checkpointer->beginning();
  if (beginning && beginning->version == local_.version) told.text = beginning->text;
  if (!told.text.empty() || told.kept) membership_.Began(world_, told);
}

void WorldEntry::ReportUnreadable(const std::string& reason) {
  if (reason.empty() && !unreadable_) return;
  unreadable_ = !reason.empty();
  membership_.Unprotected(kRestoreProtection, reason);
}

// Waits before this rank checks again, but not longer than the world lasts.
void WorldEntry::Pause(int attempt) {
  position_.Enter(RankPhase::kEvaluate);
  const auto pause = PauseAfter(attempt + 1, options_.timeout);
  for (auto waited = kPausePiece; waited < pause && !*world_over_; waited += kPausePiece) {
    std::this_thread::sleep_for(kPausePiece);
  }
}

Result<ShardedOutcome> WorldEntry::SyncSharded() {
  return options_.sharded->Sync(
      {.communicator = *communicator_,
       .world = world_,
       .adopted = local_,
       .timeout = options_.timeout,
       .moving = [this](int piece) { position_.Enter(RankPhase::kAdopt, piece); },
       .load =
           [this](const StateVersion& version, int64_t begin, int64_t end,
                  std::span<float> values) {
             if (options_.checkpointer == nullptr) {
               return Result<void>(Error{ErrorKind::kInvalid, "no saved state to read rows from"});
             }
             position_.Enter(RankPhase::kEvaluate);
             Result<void> loaded = options_.checkpointer->LoadRows(version, begin, end, values);
             const bool not_now = !loaded.ok() && loaded.error().kind == ErrorKind::kUnavailable;
             ReportUnreadable(not_now ? loaded.error().message : "");
             return loaded;
           },
       .pause = [this](int attempt) { Pause(attempt); },
       .unprotected =
           [this](const std::string& reason) {
             membership_.Unprotected(kCopyProtection, reason);
           }});
}

// Called on all ranks if part of the sharded state is missing from the ranks' memory or damaged in
// the checkpoint. Resumes training from the newest checkpoint with the whole sharded state.
Result<Adopted> WorldEntry::RollBack(std::string lost) {
  const int64_t step = local_.version.step;
  for (;;) {
    LogWarn("Lost part of the state; resuming from the latest checkpoint",
            {{"lost", lost}, {"step", local_.version.step}});
    const bool was_kept = local_.origin != StateOrigin::kTraining;
    if (was_kept && options_.checkpointer != nullptr)
      options_.checkpointer->Distrust(local_.version, lost);
    local_ = {};  // no rank has a state now, so all ranks look for saved state
    Result<Adopted> adopted = SyncReplicated();
    if (!adopted.ok()) return adopted;
    if (local_.version == StateVersion{}) {
      return Error{ErrorKind::kInvalid,
                   lost + " of the sharded state after step " + std::to_string(step) +
                       " were lost together with their copies, and no checkpoint exists; restart "
                       "the training with checkpoints (--checkpoint-dir)"};
    }
    const Result<ShardedOutcome> outcome = SyncSharded();
    if (!outcome.ok()) return outcome.error();
    adopted->sharded = outcome->checksum;
    if (outcome->lost.empty()) return adopted;
    lost = outcome->lost;
  }
}

void WorldEntry::Leave(const Error& cause) {
  const int lost_peer = communicator_->LostPeer();
  communicator_->Abort(cause.message);
  Close();
  LogWarn("Left a world", {{"term", world_.epoch.term},
                           {"number", world_.epoch.number},
                           {"rank", world_.rank},
                           {"step", local_.version.step},
                           {"lost_peer", lost_peer},
                           {"reason", cause.message}});
  const bool told = cause.kind == ErrorKind::kCancelled;  // the membership source ended the world
  if (!told && cause.kind != ErrorKind::kInvalid) {
    membership_.Broken(world_, lost_peer, cause.message);
  }
}

void WorldEntry::LeaveAtBoundary() {
  if (options_.sharded != nullptr) {
    position_.Enter(RankPhase::kAdopt);
    const Result<void> handed_over = options_.sharded->HandOver(
        *communicator_, membership_.Leaving(world_.epoch), options_.timeout);
    if (!handed_over.ok()) {
      LogWarn("Left the world without handing over its state",
              {{"reason", handed_over.error().message}});
    }
  }
  Close();
  membership_.AtBoundary(world_, local_.version.step);
}

void WorldEntry::Advance(bool excluded) {
  local_.version = local_.Next(world_.epoch);
  local_.origin = StateOrigin::kTraining;
  local_.last_step_skipped = excluded;
  position_.SetStep(local_.version.step);
}

std::function<bool()> WorldEntry::WorldOver() const {
  return [over = world_over_] { return over->load(); };
}

void WorldEntry::Close() {
  membership_.Unwatch();  // first, because until then the watch may abort the communicator
  if (options_.reducer != nullptr) options_.reducer->Stop();
  if (options_.checkpointer != nullptr) options_.checkpointer->WorldEnded();
  communicator_.reset();
  if (options_.reducer != nullptr) options_.reducer->LeaveWorld();
  sync_.reset();
}

}  // namespace ringmaster::trainer
