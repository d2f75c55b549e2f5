// One world of a session after another: entering it, coming to one state, leaving it. session.cc
// has the steps within.

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <utility>

#include "common/base/log.h"
#include "worker/trainer/elastic_torch/session.h"

namespace ringmaster::trainer {
namespace {

using control::RankPhase;

constexpr std::chrono::milliseconds kPausePiece{20};
constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{5'000};
constexpr int kQuickLooks = 20;  // at what is being written

// The members of `before` that `now` has not, with commas between them.
std::string Gone(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  std::string gone;
  for (const std::string& member : before) {
    if (std::ranges::find(now, member) != now.end()) continue;
    gone += (gone.empty() ? "" : ",") + member;
  }
  return gone;
}

}  // namespace

Result<void> Session::Join() {
  if (options_.keeper != nullptr) {
    // Only now, while nobody waits. What is wrong counts in a world where nobody has a state.
    const Result<HeldState> restored = options_.keeper->Restore(held_, /*to_begin=*/false);
    if (restored.ok()) {
      held_ = *restored;
    } else {
      LogWarn("Loaded no checkpoint", {{"reason", restored.error().message}});
    }
  }
  return EnterNext(Error{ErrorKind::kUnavailable, "no world came"});
}

// Tries world after world until one stands. `cause` is why there is none now.
Result<void> Session::EnterNext(const Error& cause) {
  Error last = cause;
  for (;;) {
    position_->Enter(RankPhase::kWait);
    Result<World> next = membership_.AwaitWorld(world_.epoch);
    if (!next.ok() && next.error().kind == ErrorKind::kNotFound) {
      if (next.error().reason == kReplayed) return next.error();
      last.reason = kPeerLost;
      return last;
    }
    if (!next.ok()) return next.error().WithContext("waiting for the next world");
    world_ = *std::move(next);
    world_.waits_for = [position = position_](int peer) { position->WaitsFor(peer); };
    const Result<void> entered = Enter();
    if (entered.ok()) return {};
    last = entered.error();
    if (last.kind == ErrorKind::kInvalid || last.kind == ErrorKind::kInternal) return last;
  }
}

Result<void> Session::Enter() {
  const auto start = clock_.Now();
  position_->EnterWorld(world_.epoch);
  Result<std::unique_ptr<Communicator>> made = make_communicator_(world_, StepDeadline());
  if (!made.ok()) return made.error();
  communicator_ = *std::move(made);
  world_over_ = std::make_shared<std::atomic<bool>>(false);
  membership_.Watch(world_.epoch, [communicator = communicator_.get(),
                                   over = world_over_](const std::string& reason) {
    *over = true;
    communicator->Abort(reason);
  });
  Result<Adopted> adopted = Level();
  TellUnreadable("");
  if (adopted.ok() && held_.origin == StateOrigin::kOther) {
    if (const Result<void> kept = KeepOther(); !kept.ok()) adopted = kept.error();
  }
  if (!adopted.ok()) {
    Leave(adopted.error());  // before the memory that its operations work on
    return adopted.error();
  }
  levelling_.reset();
  resumed_.reset();
  if (*NameOf(held_.origin) != '\0') resumed_ = held_;
  position_->SetStep(held_.version.step);
  switching_ = checkpoint_wanted_ = false;
  unreported_.reset();
  if (options_.keeper != nullptr) {
    TellBeginning();
    options_.keeper->Committed(world_, held_);
  }
  EnterCompression(*adopted);
  if (options_.entered) options_.entered(world_);
  LogInfo("Entered a world",
          {{"term", world_.epoch.term},
           {"number", world_.epoch.number},
           {"rank", world_.rank},
           {"size", world_.size},
           {"step", held_.version.step},
           {"took_over", adopted->changed},
           {"millis",
            std::chrono::duration_cast<std::chrono::milliseconds>(clock_.Now() - start).count()}});
  return {};
}

// What compression owes of earlier steps is known to each rank alone: it is declared what became of
// it.
void Session::EnterCompression(const Adopted& adopted) {
  std::string residuals;  // empty: nothing is compressed
  if (feedback_) {
    const ResidualFate fate = feedback_->Adopt(adopted.held, adopted.changed);
    residuals = NameOf(fate);
    const std::string gone = Gone(members_, world_.members);
    if (fate == ResidualFate::kDropped || !gone.empty()) {
      LogWarn("Gave up what compression owed of earlier steps",
              {{"this_rank", residuals}, {"with_members", gone}});
    }
    members_ = world_.members;
    reducer_ = std::make_unique<CompressedReducer>(*communicator_, *options_.codec, *feedback_);
  }
  audit_.Entered(world_, options_.global_batch, adopted, residuals);
}

// Brings all ranks to one state, the sharded part included.
Result<Adopted> Session::Level() {
  Result<Adopted> adopted = LevelReplicated();
  if (!adopted.ok() || options_.sharded == nullptr) return adopted;
  const Result<ShardedOutcome> outcome = LevelSharded();
  if (!outcome.ok()) return outcome.error();
  if (!outcome->lost.empty()) return GoBack(outcome->lost);
  adopted->sharded = outcome->checksum;
  return adopted;
}

Result<Adopted> Session::LevelReplicated() {
  Levelling::Options how{
      .fingerprint = options_.fingerprint,
      .timeout = options_.timeout,
      .moving = [this](int piece) { position_->Enter(RankPhase::kAdopt, piece); },
      .mirror = options_.mirror};
  if (options_.keeper != nullptr) {
    how.look_again = [this](const HeldState& held) { return LookAgain(held); };
    how.pause = [this](int attempt) { Pause(attempt); };
  }
  levelling_ = std::make_unique<Levelling>(state_, held_, clock_, how);
  Result<Adopted> adopted = levelling_->Run(*communicator_);
  if (adopted.ok()) held_ = adopted->held;
  return adopted;
}

Result<HeldState> Session::LookAgain(const HeldState& held) {
  position_->Enter(RankPhase::kEvaluate);  // much state takes long
  Result<HeldState> restored = options_.keeper->Restore(held, /*to_begin=*/true);
  if (restored.ok()) held_ = *restored;
  const bool not_now = !restored.ok() && restored.error().kind == ErrorKind::kUnavailable;
  if (not_now && !unreadable_)
    LogWarn("Cannot read what is kept; tries again", {{"reason", restored.error().message}});
  TellUnreadable(not_now ? restored.error().message : "");
  return restored;
}

// A world that begins with another job's state makes it its own first: whatever becomes of that
// other job then, this one goes on.
Result<void> Session::KeepOther() {
  for (int attempt = 0;; ++attempt) {
    position_->Enter(RankPhase::kEvaluate);
    const bool complete = options_.keeper->KeepOther(world_, held_);
    const std::optional<StateVersion> part = options_.keeper->PartWritten();
    std::array<float, 2> said{complete ? 1.0F : 0.0F, part ? 1.0F : 0.0F};
    const Result<void> summed =
        WaitConfirmed(*communicator_, communicator_->AllReduce(said, StepDeadline()));
    if (!summed.ok()) return summed.error().WithContext("making another job's state this job's");
    if (said[0] > 0) return {};
    if (part && said[1] >= static_cast<float>(world_.size)) options_.keeper->PartsWritten(*part);
    Pause(std::max(0, attempt - kQuickLooks));
  }
}

// Rank 0, where this world began with what it found, or with nothing. A launcher that is as new as
// the world knows of no checkpoint before it is told.
void Session::TellBeginning() {
  if (world_.rank != 0 || held_.origin == StateOrigin::kTraining) return;
  Beginning told{
      .version = held_.version, .text = {}, .kept = options_.keeper->NewestKept(held_.version)};
  const std::optional<Beginning>& beginning = options_.keeper->beginning();
  if (beginning && beginning->version == held_.version) told.text = beginning->text;
  if (!told.text.empty() || told.kept) membership_.Began(world_, told);
}

void Session::TellUnreadable(const std::string& reason) {
  if (reason.empty() && !unreadable_) return;
  unreadable_ = !reason.empty();
  membership_.Unprotected(kRestoreProtection, reason);
}

// Between two looks at what may be there soon: longer each time, but never so long that other ranks
// give this one up, and no longer than the world.
void Session::Pause(int attempt) {
  position_->Enter(RankPhase::kEvaluate);
  const auto longest = std::min(kLongestPause, options_.timeout / 4);
  const auto pause = std::min(longest, kFirstPause * (1 << std::min(attempt, 10)));
  for (auto waited = kPausePiece; waited < pause && !*world_over_; waited += kPausePiece) {
    std::this_thread::sleep_for(kPausePiece);
  }
}

Result<ShardedOutcome> Session::LevelSharded() {
  return options_.sharded->Level(
      {.communicator = *communicator_,
       .world = world_,
       .adopted = held_,
       .timeout = options_.timeout,
       .moving = [this](int piece) { position_->Enter(RankPhase::kAdopt, piece); },
       .load =
           [this](const StateVersion& version, int64_t begin, int64_t end,
                  std::span<float> values) {
             if (options_.keeper == nullptr) {
               return Result<void>(
                   Error{ErrorKind::kInvalid, "no state is kept to read rows from"});
             }
             position_->Enter(RankPhase::kEvaluate);
             Result<void> loaded = options_.keeper->LoadRows(version, begin, end, values);
             const bool not_now = !loaded.ok() && loaded.error().kind == ErrorKind::kUnavailable;
             TellUnreadable(not_now ? loaded.error().message : "");
             return loaded;
           },
       .pause = [this](int attempt) { Pause(attempt); },
       .unprotected =
           [this](const std::string& reason) {
             membership_.Unprotected(kCopyProtection, reason);
           }});
}

// Parts of the sharded state are in nobody's memory any more, or damaged in the checkpoint:
// training goes on from the newest one that has them, and says so. Every rank comes here alike.
Result<Adopted> Session::GoBack(std::string lost) {
  const int64_t step = held_.version.step;
  for (;;) {
    LogWarn("Lost a part of the state: going back to the newest checkpoint",
            {{"lost", lost}, {"step", held_.version.step}});
    const bool was_kept = held_.origin != StateOrigin::kTraining;
    if (was_kept && options_.keeper != nullptr) options_.keeper->Distrust(held_.version, lost);
    held_ = {};  // as nobody has trained now, all look for what is kept
    Result<Adopted> adopted = LevelReplicated();
    if (!adopted.ok()) return adopted;
    if (held_.version == StateVersion{}) {
      return Error{ErrorKind::kInvalid,
                   lost + " of the sharded state after step " + std::to_string(step) +
                       " were lost together with their copies, and there is no checkpoint to go "
                       "back to; train again, with checkpoints (--checkpoint-dir)"};
    }
    const Result<ShardedOutcome> outcome = LevelSharded();
    if (!outcome.ok()) return outcome.error();
    adopted->sharded = outcome->checksum;
    if (outcome->lost.empty()) return adopted;
    lost = outcome->lost;
  }
}

// The world is over for this rank because of `cause`.
void Session::Leave(const Error& cause) {
  const int lost_peer = communicator_->LostPeer();
  communicator_->Abort(cause.message);
  CloseWorld();
  LogWarn("Left a world", {{"term", world_.epoch.term},
                           {"number", world_.epoch.number},
                           {"rank", world_.rank},
                           {"step", held_.version.step},
                           {"lost_peer", lost_peer},
                           {"reason", cause.message}});
  const bool told = cause.kind == ErrorKind::kCancelled;  // whoever decides gave it up
  if (!told && cause.kind != ErrorKind::kInvalid) {
    membership_.Broken(world_, lost_peer, cause.message);
  }
}

void Session::CloseWorld() {
  membership_.Unwatch();  // before what the watch aborts
  if (reducer_) reducer_->Stop();
  if (options_.keeper != nullptr) options_.keeper->WorldEnded();
  communicator_.reset();
  reducer_.reset();
  levelling_.reset();
}

}  // namespace ringmaster::trainer
