#pragma once

// The start gate of one cohort: records which of mpirun's processes have attached, and whether they
// are exactly the expected set. Counting the processes would not detect that mpirun started all of
// them on one host. Does no I/O; owned by a job.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace ringmaster::launcher {

class StartGate {
 public:
  using Slot = std::pair<std::string, int>;  // Pod UID, slot

  // What is wrong with the set of processes. `slot` and `world_size` are set if `kind` needs them.
  struct Fault {
    enum class Kind { kAttachedTwice, kNotExpected, kOtherWorldSize, kSameRank };
    Kind kind = Kind::kAttachedTwice;
    Slot slot;
    int world_size = 0;
  };

  // Begins a new attempt and forgets the previous one.
  void Expect(std::set<Slot> slots);

  // Records an attached process. A report that a reconnected agent repeats has no effect.
  void Attach(const Slot& slot, int mpi_rank, int mpi_world_size);

  // Returns whether each expected slot has attached exactly once and no other process has.
  bool Complete() const { return !fault_ && attached_.size() == expected_.size(); }
  const std::optional<Fault>& fault() const { return fault_; }

  std::size_t expected() const { return expected_.size(); }
  std::size_t attached() const { return attached_.size(); }
  std::set<Slot> AttachedSlots() const;

 private:
  struct Process {
    int mpi_rank = 0;
    int mpi_world_size = 0;
  };

  std::set<Slot> expected_;
  std::map<Slot, Process> attached_;
  std::optional<Fault> fault_;  // the first fault; it is kept until Expect()
};

}  // namespace ringmaster::launcher
