#pragma once

// One start of the first world by mpirun or the agents: tracks which of mpirun's processes have
// attached and how mpirun ended, and decides whether the start has failed. Counts the failed starts
// since the gate last opened. A value.

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "worker/launcher/model/actions.h"
#include "worker/launcher/model/coordinator_options.h"
#include "worker/launcher/model/start_gate.h"

namespace ringmaster::launcher {

class Startup {
 public:
  using Time = Clock::Time;
  using Slot = StartGate::Slot;

  // Begins a start: mpirun (or, if `cohort` is kStartedByAgents, the agents) starts one process in
  // each of these slots.
  void Begin(Time now, int64_t cohort, std::set<Slot> expected);
  void Attach(Time now, const std::string& pod_uid, const control::SlotAttached& attached);
  void MpirunExited(Time now, const MpirunExit& exit);
  void GateOpened() { failed_starts_ = 0; }

  // The following functions describe the newest start.
  int64_t cohort() const { return cohort_; }
  bool mpirun_runs() const { return mpirun_runs_; }
  // The exit of the mpirun of this start, if it has exited.
  const std::optional<MpirunExit>& mpirun_exit() const { return mpirun_exit_; }
  Time mpirun_exited_at() const { return mpirun_exited_at_; }
  const StartGate& gate() const { return gate_; }
  bool AllAttached() const { return by_agents_ || gate_.Complete(); }

  // What Judge() needs to know about the workers and the members.
  struct Others {
    std::function<bool(Time)> all_members_reported_since;
    std::function<std::string(const Slot&)> name;
    const std::vector<control::Member>& members;
  };
  // The decision about this start. If neither field is set, the launcher continues to wait.
  struct Judgement {
    std::optional<Failure> failure{};
    std::optional<std::string> start_again{};  // the cause
  };
  // Call while the start gate is closed.
  Judgement Judge(Time now, const CoordinatorOptions& options, const Others& others);

 private:
  std::string GateText(const Others& others) const;
  std::string MismatchText(const Others& others) const;

  int64_t cohort_ = 0;
  bool by_agents_ = false;  // no process attaches
  StartGate gate_;
  std::optional<Time> mismatch_at_;
  Time attached_at_{};  // when the newest process attached
  bool mpirun_runs_ = false;
  std::optional<MpirunExit> mpirun_exit_;
  Time mpirun_exited_at_{};
  int failed_starts_ = 0;
};

}  // namespace ringmaster::launcher
