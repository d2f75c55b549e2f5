#pragma once

// Tracks the saved training state: whether a checkpoint may be completed, the latest complete one,
// the state from which training started, and current failures to save. Does no I/O; owned by a job
// (job.h).

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "common/control/rank_agent_messages.h"

namespace ringmaster::launcher {

class CheckpointTracker {
 public:
  using Time = Clock::Time;

  // Returns whether a rank of `pod_uid` may complete its checkpoint: the Pod is in the running
  // world (so it is not fenced), and the report is about that world. Records the grant.
  bool Grants(const control::CheckpointWritten& written, const std::string& pod_uid,
              const control::Epoch& epoch, const std::vector<control::Member>& members);

  // Records a complete checkpoint if it is the last one that was granted to this rank.
  void Completed(Time now, const std::string& pod_uid, const control::CheckpointDone& done);
  // Records a checkpoint that an earlier launcher granted. That launcher's grants are not known, so
  // the report is accepted from any member of the running world.
  void CompletedBefore(Time now, const std::string& pod_uid, const control::CheckpointDone& done,
                       const std::vector<control::Member>& members);

  // Records the state from which training began. Accepted from rank 0 of the running world.
  void Began(Time now, const control::RankBegan& began, const std::string& pod_uid,
             const control::Epoch& epoch, const std::vector<control::Member>& members);
  const std::optional<control::Beginning>& beginning() const { return beginning_; }
  // Returns true if rank 0 of `epoch`, the running world, must be asked for a checkpoint: one is
  // `wanted`, no checkpoint is complete at or after the step of the first call with `wanted`, and
  // in this epoch rank 0 has not been asked within the last kAskAgain.
  bool AskNow(Time now, bool wanted, const control::Epoch& epoch, int64_t step);
  static constexpr std::chrono::seconds kAskAgain{10};

  // Records that a slot cannot save or restore its state; with an empty fault, that it can again.
  void Protection(const std::string& pod_uid, const std::string& pod,
                  const control::RankProtection& protection);
  // Call when the process in `slot` has ended; without `slot`: when the whole Pod has ended.
  void Forget(const std::string& pod_uid, std::optional<int> slot = {});

  std::optional<control::CheckpointReport> Newest(Time now) const;
  // Returns the first fault of each kind, by Pod and slot; at most kMostFaults.
  std::vector<control::ProtectionFault> Faults() const;
  static constexpr std::size_t kMostFaults = 4;

 private:
  struct Done {
    control::Epoch epoch;
    int64_t step = 0;
    int64_t bytes = 0;
    Time at{};
  };
  void NoteDone(Time now, const control::CheckpointDone& done);

  // The newest grant to each slot, by Pod UID and slot.
  std::map<std::pair<std::string, int>, control::CheckpointWritten> granted_;
  std::optional<control::Beginning> beginning_;
  std::optional<Done> newest_;
  std::optional<int64_t> wanted_step_;
  control::Epoch asked_;
  Time asked_at_{};
  // By Pod UID, slot and kind.
  std::map<std::tuple<std::string, int, std::string>, control::ProtectionFault> faults_;
};

}  // namespace ringmaster::launcher
