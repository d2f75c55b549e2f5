#include "worker/launcher/model/startup.h"

#include <algorithm>
#include <utility>

#include "common/base/count_text.h"
#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "worker/launcher/model/failure_policy.h"

namespace ringmaster::launcher {

void Startup::Begin(Time now, int64_t cohort, std::set<Slot> expected) {
  cohort_ = cohort;
  by_agents_ = cohort == control::kStartedByAgents;
  gate_.Expect(std::move(expected));
  mismatch_at_.reset();
  attached_at_ = now;
  mpirun_runs_ = !by_agents_;
  mpirun_exit_.reset();
}

void Startup::Attach(Time now, const std::string& pod_uid, const control::SlotAttached& attached) {
  attached_at_ = now;
  gate_.Attach({pod_uid, attached.slot}, attached.mpi_rank, attached.mpi_world_size);
  if (gate_.fault() && !mismatch_at_) mismatch_at_ = now;
}

void Startup::MpirunExited(Time now, const MpirunExit& exit) {
  mpirun_runs_ = false;
  mpirun_exit_ = exit;
  mpirun_exited_at_ = now;
}

Startup::Judgement Startup::Judge(Time now, const CoordinatorOptions& options,
                                  const Others& others) {
  const auto fail = [](const char* reason, std::string message) {
    return Judgement{Failure{reason, std::move(message)}};
  };
  // The attached processes differ from the expected ones; wait for details before failing the job.
  if (mismatch_at_ && now - *mismatch_at_ >= options.settle) {
    return fail(control::kReasonWorldMismatch, GateText(others) + "; " + MismatchText(others));
  }
  // All processes have attached and are loading, so mpirun has completed its part.
  if (AllAttached()) return {};
  if (!mpirun_exit_) {
    if (now - attached_at_ < options.attach_within) return {};
    return fail(control::kReasonMpirunFailed,
                "mpirun did not start all processes in time; " + MismatchText(others));
  }
  const MpirunExit& exit = *mpirun_exit_;
  if (!exit.start_error.empty()) {
    return fail(control::kReasonMpirunFailed, "mpirun could not be started: " + exit.start_error);
  }
  // mpirun may have ended because a worker disappeared, which is detected a little later.
  if (now - mpirun_exited_at_ < options.settle ||
      !others.all_members_reported_since(mpirun_exited_at_ + options.settle / 2)) {
    return {};
  }
  const bool elsewhere =
      exit.exit_code == control::kExitNoAgent ||
      std::any_of(exit.last_lines.begin(), exit.last_lines.end(), [](const std::string& line) {
        return line.find(control::kNoAgentText) != std::string::npos;
      });
  if (elsewhere) {
    return fail(control::kReasonWorldMismatch,
                "mpirun started processes on a host that is not one of this world's workers; " +
                    MismatchText(others) + "; it ignored the hostfile");
  }
  const std::string how = exit.signal > 0 ? "was killed by signal " + std::to_string(exit.signal)
                                          : "exited with code " + std::to_string(exit.exit_code);
  const std::string what = "mpirun " + how + " before all processes were attached; ";
  // A single refused or slow ssh connection ends mpirun. Try again, because the agents still
  // work.
  if (++failed_starts_ < options.start_attempts) {
    return {std::nullopt, what + PrintedText(exit.last_lines)};
  }
  control::RankExit lines;
  lines.last_lines = exit.last_lines;
  lines.exit_code = exit.exit_code;
  lines.signal = exit.signal;
  return {Failure{control::kReasonMpirunFailed,
                  what + MismatchText(others) + "; " + PrintedText(exit.last_lines),
                  std::max(1, exit.exit_code), lines}};
}

// Describes what is wrong with the set of attached processes.
std::string Startup::GateText(const Others& others) const {
  const StartGate::Fault& fault = *gate_.fault();
  switch (fault.kind) {
    case StartGate::Fault::Kind::kAttachedTwice:
      return "two processes attached to " + others.name(fault.slot);
    case StartGate::Fault::Kind::kNotExpected:
      return "a process attached to " + others.name(fault.slot) + ", which is not in this world";
    case StartGate::Fault::Kind::kOtherWorldSize:
      return "mpirun's world has " + CountText(fault.world_size, "rank");
    case StartGate::Fault::Kind::kSameRank:
      return "two processes have the same mpirun rank";
  }
  return "";
}

std::string Startup::MismatchText(const Others& others) const {
  constexpr std::size_t kShown = 600;
  std::string expected;
  for (const control::Member& member : others.members) {
    if (expected.size() > kShown) {
      expected += ", ...";
      break;
    }
    expected += (expected.empty() ? "" : ", ") + others.name({member.pod_uid, member.slot});
  }
  std::string got;
  for (const Slot& slot : gate_.AttachedSlots()) {
    if (got.size() > kShown) {
      got += ", ...";
      break;
    }
    got += (got.empty() ? "" : ", ") + others.name(slot);
  }
  return "expected " + std::to_string(others.members.size()) + " (" + expected + "), attached " +
         std::to_string(gate_.attached()) + (got.empty() ? "" : " (" + got + ")");
}

}  // namespace ringmaster::launcher
