#pragma once

// The interface through which a rank learns its world and reports its progress. Used by the
// session; the rest of the trainer does not know whether an agent or flags decide on membership.

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "common/base/result.h"
#include "common/control/kept_checkpoint.h"
#include "common/control/membership.h"
#include "worker/trainer/comm/world.h"
#include "worker/trainer/elastic/state_version.h"

namespace ringmaster::trainer {

// What a rank may fail to save (MembershipSource::Unprotected).
inline constexpr char kCheckpointProtection[] = "checkpoint";
inline constexpr char kSnapshotProtection[] = "snapshot";
inline constexpr char kCopyProtection[] = "copy";        // of the rank's share of a sharded state
inline constexpr char kRestoreProtection[] = "restore";  // cannot be read now, so training waits

// A part of a checkpoint that this rank has written to the volume.
struct WrittenShard {
  int64_t step = 0;
  int32_t shard = 0;
  int64_t bytes = 0;
  std::string checksum{};  // of its data, in hex
};

// With what a world began that had no state of its own.
struct Beginning {
  StateVersion version;
  std::string text{};  // for people: a sentence; empty where there is nothing to say
  std::optional<control::KeptCheckpoint> kept{};  // the job's newest one that it could resume from
};

// Thread-safety: one caller, but for the calls about checkpoints, which come from any one thread;
// callbacks come on any thread.
class MembershipSource {
 public:
  virtual ~MembershipSource() = default;

  // Blocks, without a time limit, until there is a world of a higher epoch than `after` that this
  // rank is part of; the first call says that the rank has loaded and is ready. kNotFound: no other
  // world will ever come. kUnavailable: the source is closed.
  virtual Result<World> AwaitWorld(control::Epoch after) = 0;
  // After AwaitWorld() returned kNotFound: whether that is because this rank has done all that it
  // was to do (world_sources/static/replay_membership.h).
  virtual bool Done() const { return false; }

  // Calls `over` once, with the reason, as soon as `epoch` is given up or followed by a higher one,
  // or the source of worlds has gone; at once if that is so already. One watch at a time.
  using OverCallback = std::function<void(const std::string& reason)>;
  virtual void Watch(control::Epoch epoch, OverCallback over) = 0;
  // After it the callback neither runs nor will run.
  virtual void Unwatch() = 0;

  // Whether the ranks of `epoch` must leave it together after `step`, which is about to begin.
  virtual bool SwitchWanted(control::Epoch epoch, int64_t step) = 0;
  // Whether this rank will not be in the world that follows, as far as is known: what only it holds
  // must be handed over before `epoch` is left at a boundary.
  virtual bool Leaving(control::Epoch /*epoch*/) { return false; }

  // Whether the ranks of `epoch` should write an additional checkpoint of the step that is about to
  // begin. Called on rank 0; returns true once.
  virtual bool CheckpointWanted(control::Epoch /*epoch*/) { return false; }

  // The world cannot continue because of a peer (-1: unknown). An observation: returns at once.
  virtual void Broken(const World& world, int peer, const std::string& reason) = 0;
  // This rank left the world after `step`, as SwitchWanted asked, and waits for the next.
  virtual void AtBoundary(const World& world, int64_t step) = 0;
  // Committed progress, from rank 0; may drop reports that come more often than they are wanted.
  virtual void Report(const World& world, const control::Progress& progress) = 0;

  // Past the last step: says so, and blocks until every rank of the world may end (true) or the
  // world is over and another one comes (false). Says AtBoundary where that is wanted meanwhile.
  virtual Result<bool> Finish(const World& world, const control::Progress& progress) = 0;

  // Blocks until the source of worlds grants this checkpoint: this rank is in the current world and
  // not fenced. Continues across changes of the world. kCancelled: `stop` was requested.
  virtual Result<void> AwaitGrant(const WrittenShard& /*shard*/, const std::stop_token& /*stop*/) {
    return {};
  }
  // The checkpoint of this step, which was granted last, is complete; `bytes` are held by all that
  // are kept.
  virtual void CheckpointComplete(int64_t /*step*/, int64_t /*bytes*/) {}
  // With what the world began, where there is something to say of it, or a checkpoint is kept; from
  // rank 0.
  virtual void Began(const World& /*world*/, const Beginning& /*beginning*/) {}
  // Before Finish(): no step of the state is of this job.
  virtual void NothingTrained() {}
  // Why `what` cannot be kept now; an empty reason: it can again.
  virtual void Unprotected(const std::string& /*what*/, const std::string& /*reason*/) {}
};

}  // namespace ringmaster::trainer
