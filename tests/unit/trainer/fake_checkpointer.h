#pragma once

// Replaces the checkpointer: the stored state is a field, and calls are counted.

#include <functional>
#include <optional>
#include <vector>

#include "worker/trainer/elastic/checkpointer.h"

namespace ringmaster::trainer {

class FakeCheckpointer final : public Checkpointer {
 public:
  Result<LocalState> Restore(const LocalState& local, bool to_begin) override {
    if (!to_begin) return local;
    if (unreadable-- > 0) return Error{ErrorKind::kUnavailable, "the volume is away"};
    return kept;
  }
  const std::optional<Beginning>& beginning() const override { return began_with; }
  std::optional<control::KeptCheckpoint> NewestKept(const StateVersion& up_to) const override {
    if (!keeps) return std::nullopt;
    return control::KeptCheckpoint{.step = up_to.step};
  }
  bool KeepOther(const World&, const LocalState&) override {
    ++asked_to_keep;
    if (keeping) keeping();
    return asked_to_keep == 3;
  }
  void Distrust(const StateVersion& version, const std::string&) override {
    distrusted.push_back(version.step);
    kept = LocalState{};
  }
  bool SnapshotDue() const override { return snapshot_due; }
  void Applied(const World&, const LocalState& local, bool snapshot) override {
    if (snapshot) snapshots.push_back(local.version.step);
  }
  void Committed(const World&, const LocalState& local, bool) override {
    committed.push_back(local.version.step);
  }
  std::optional<StateVersion> PartWritten() const override { return part_written; }
  bool PartFailed() const override { return part_failed; }
  void PartsWritten(const StateVersion&) override { ++parts_written; }
  void PartsFailed() override { ++parts_failed; }
  Result<void> LoadRows(const StateVersion&, int64_t, int64_t, std::span<float>) const override {
    return rows;
  }
  void WorldEnded() override { ++worlds_ended; }
  bool FinishPart(const World&, const LocalState&, const GivenUp&) override {
    return ++asked_to_finish > unfinished_looks;
  }
  void Finished(const World&, const LocalState&, const GivenUp&) override {}

  Result<LocalState> kept = LocalState{};
  int unreadable = 0;  // number of loads that will fail
  std::function<void()> keeping;
  int asked_to_keep = 0;
  int parts_written = 0;
  int parts_failed = 0;
  int asked_to_finish = 0;
  int unfinished_looks = 0;  // number of calls of FinishPart() that return false
  int worlds_ended = 0;
  std::vector<int64_t> committed;   // step numbers
  std::vector<int64_t> distrusted;  // step numbers
  bool keeps = true;
  std::optional<Beginning> began_with;
  std::optional<StateVersion> part_written;
  bool part_failed = false;
  Result<void> rows;
  bool snapshot_due = false;
  std::vector<int64_t> snapshots;  // step numbers
};

}  // namespace ringmaster::trainer
