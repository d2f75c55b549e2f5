#include "bench/chaos/stage.h"

#include <algorithm>
#include <csignal>
#include <numeric>

#include "common/control/pod_contract.h"

namespace ringmaster::chaos {
namespace {

using runtime_test::Hosts;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kTrainer[] = "ringmaster-train";
constexpr char kPython[] = "python";
constexpr char kAuditVariable[] = "RINGMASTER_AUDIT_LOG";
constexpr milliseconds kLookAtAgents{100};

control::LaunchSpec Trainer(const StageOptions& options, const std::string& folder) {
  control::LaunchSpec spec;
  if (!options.script.empty()) {
    spec.in_place = true;
    spec.command = {kPython, options.script};
    spec.command.insert(spec.command.end(), options.trainer_flags.begin(),
                        options.trainer_flags.end());
    return spec;
  }
  spec.command = TrainerArguments(options);
  spec.command.insert(spec.command.begin(), runtime_test::TrainProgram());
  spec.command.push_back("--audit-log=" + folder);
  return spec;
}

double MillisSince(Time begin, Time end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

Error Late(const std::string& what) { return {ErrorKind::kTimeout, what + " timed out"}; }

}  // namespace

std::vector<std::string> TrainerArguments(const StageOptions& options) {
  std::vector<std::string> arguments{"--threads=1",  // the hosts share the machine's processors
                                     "--workload=mnist",
                                     "--data=generated",
                                     "--generated-samples=2048",
                                     "--seed=7",
                                     "--global-batch=" + std::to_string(options.global_batch),
                                     "--steps=100000000",
                                     "--schedule=constant",
                                     "--learning-rate=0.001",
                                     "--step-log=none"};
  arguments.insert(arguments.end(), options.trainer_flags.begin(), options.trainer_flags.end());
  return arguments;
}

Stage::Stage(const StageOptions& options, std::string folder)
    : options_(options),
      job_(1 + options.workers, Trainer(options_, folder)),
      trail_(folder),
      wanted_(options.at_first > 0 ? options.at_first : options.workers),
      pods_(static_cast<std::size_t>(options.workers), 1) {
  job_.launcher_extra[control::kEnvLostAfterMillis] = std::to_string(options_.lost_after.count());
  job_.launcher_extra[control::kEnvStallMillis] =
      std::to_string(std::max<int64_t>(options_.lost_after.count(), 1000));
  job_.worker_extra = options_.variables;
  if (!options_.script.empty()) job_.worker_extra[kAuditVariable] = folder;
}

Result<void> Stage::Begin() {
  for (int worker = 0; options_.cpus > 0 && worker < options_.workers; ++worker) {
    job_.LimitCpu(worker, options_.cpus);
  }
  job_.StartLauncher(term_);
  StartWorkers(0, wanted_);
  Order(wanted_);
  if (!trail_.Await(options_.limit, [](const Applied& newest) { return newest.step >= 5; })) {
    return Late("the first step");
  }
  return {};
}

Result<Outcome> Stage::Strike(const Fault& fault) {
  const std::size_t known = trail_.steps().size();
  const Applied before = trail_.newest();
  const Time struck = steady_clock::now();
  Act(fault);
  Result<Outcome> outcome = fault.kind == FaultKind::kLauncher ? ReplaceLauncher(before)
                                                               : ReplaceLost(fault, before, struck);
  const Result<void> whole = outcome.ok() ? AwaitWorldOf(wanted_) : Result<void>(outcome.error());
  if (!whole.ok()) {
    return whole.error().WithContext(std::string("recovering from ") + ToString(fault.kind) +
                                     " of worker " + std::to_string(fault.worker));
  }
  outcome->whole = MillisSince(struck, steady_clock::now());
  outcome->longest_gap = LongestGapSince(known, before);
  const auto recovery = job_.Status().last_recovery;
  if (recovery && recovery->epoch > before.epoch) {
    outcome->detected = static_cast<double>(recovery->detected_millis);
    outcome->reformed = static_cast<double>(recovery->resumed_millis);
    outcome->steps_lost = recovery->steps_lost;
  }
  if (auto kept = AwaitProtected(); !kept.ok()) return kept.error();
  return outcome;
}

Result<Outcome> Stage::Scale(int workers) {
  const std::size_t known = trail_.steps().size();
  const Applied before = trail_.newest();
  const Time asked = steady_clock::now();
  StartWorkers(wanted_, workers);
  wanted_ = workers;
  Order(wanted_);
  if (auto whole = AwaitWorldOf(wanted_); !whole.ok()) return whole.error();
  Outcome outcome;
  outcome.whole = MillisSince(asked, steady_clock::now());
  outcome.longest_gap = LongestGapSince(known, before);
  return outcome;
}

Result<void> Stage::End() {
  // First shrink the world to one worker, so that all steps in the logs are complete: the other
  // workers leave after a step that all ranks completed, and the last worker then trains alone.
  Order(1);
  if (auto alone = AwaitWorldOf(1); !alone.ok()) return alone;
  for (int worker = 0; worker < wanted_; ++worker) {
    Hosts::Signal(job_.agent(worker), SIGKILL);
    (void)job_.agent(worker).Wait(options_.limit);
  }
  job_.launcher().Kill();
  return {};
}

void Stage::Order(int workers) {
  std::vector<int> all(static_cast<std::size_t>(workers));
  std::iota(all.begin(), all.end(), 0);
  (void)job_.SendOrder(all, std::min(workers, options_.min_replicas));
}

void Stage::StartWorkers(int from, int to) {
  for (int worker = from; worker < to; ++worker) job_.StartAgent(worker);
}

void Stage::Act(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kKillRank:
      for (const pid_t rank : RanksOf(fault.worker)) kill(rank, SIGKILL);
      return;
    case FaultKind::kHangRank:
      for (const pid_t rank : RanksOf(fault.worker)) kill(rank, SIGSTOP);
      return;
    case FaultKind::kKillAgent:
      Hosts::Signal(job_.agent(fault.worker), SIGKILL);
      return;
    case FaultKind::kStop:
      SignalWorker(fault.worker, SIGSTOP);
      return;
    case FaultKind::kCut:
      job_.hosts().SetCut(1 + fault.worker, true);
      return;
    case FaultKind::kCutIn:
      job_.hosts().CutInward(1 + fault.worker);
      return;
    case FaultKind::kLauncher:
      Hosts::Signal(job_.launcher(), SIGKILL);
      return;
  }
}

std::vector<pid_t> Stage::RanksOf(int worker) {
  return Hosts::Find(job_.agent(worker), options_.script.empty() ? kTrainer : kPython);
}

void Stage::SignalWorker(int worker, int signal) {
  for (const pid_t rank : RanksOf(worker)) kill(rank, signal);
  Hosts::Signal(job_.agent(worker), signal);
}

Result<Outcome> Stage::ReplaceLauncher(const Applied& before) {
  if (!job_.launcher().Wait(options_.limit)) return Late("the launcher's end");
  job_.StartLauncher(++term_);
  Order(wanted_);
  const bool went_on = trail_.Await(
      options_.limit, [&](const Applied& newest) { return newest.step > before.step + 1; });
  if (!went_on) return Late("a step under the new launcher");
  return Outcome{};
}

Result<Outcome> Stage::ReplaceLost(const Fault& fault, const Applied& before, Time struck) {
  const auto is_next = [&](const Applied& applied) { return applied.epoch > before.epoch; };
  if (!trail_.Await(options_.limit, is_next)) return Late("a step of the next world");
  Outcome outcome;
  const auto steps = trail_.steps();
  outcome.first_step = MillisSince(struck, std::find_if(steps.begin(), steps.end(), is_next)->seen);
  // The agent restarts a killed rank by itself, and a hung rank once the launcher has ended it.
  if (fault.kind == FaultKind::kKillRank || fault.kind == FaultKind::kHangRank) return outcome;

  // Let the fenced Pod continue before it is replaced: the launcher must not admit it again.
  if (fault.kind == FaultKind::kStop) SignalWorker(fault.worker, SIGCONT);
  if (fault.kind == FaultKind::kCut || fault.kind == FaultKind::kCutIn) {
    job_.hosts().SetCut(1 + fault.worker, false);
  }
  if (!job_.agent(fault.worker).Wait(options_.limit)) return Late("the fenced Pod's end");
  Replace(fault.worker);
  Order(wanted_);
  return outcome;
}

void Stage::Replace(int worker) {
  const int pod = ++pods_[static_cast<std::size_t>(worker)];
  job_.StartAgent(worker, "uid-" + std::to_string(worker) + "-" + std::to_string(pod));
}

Result<void> Stage::AwaitWorldOf(int members) {
  const Time limit = steady_clock::now() + options_.limit;
  while (!trail_.Await(kLookAtAgents,
                       [&](const Applied& newest) { return newest.world_size == members; })) {
    if (steady_clock::now() >= limit) {
      return Late("a step of a world of " + std::to_string(members) + " (" + job_.Status().message +
                  ")");
    }
    // On a busy machine a worker may be lost without a fault, because it was silent for too long.
    for (int worker = 0; worker < members; ++worker) {
      if (!job_.agent(worker).Wait(milliseconds(0))) continue;
      Replace(worker);
      Order(members);
    }
  }
  return {};
}

Result<void> Stage::AwaitProtected() {
  const Time limit = steady_clock::now() + options_.limit;
  for (auto faults = job_.Status().unprotected; !faults.empty();
       faults = job_.Status().unprotected) {
    if (steady_clock::now() >= limit) return Late("the state's protection: " + faults[0].message);
    const int64_t step = trail_.newest().step;
    trail_.Await(options_.limit, [&](const Applied& newest) { return newest.step > step; });
  }
  return {};
}

double Stage::LongestGapSince(std::size_t known, const Applied& before) const {
  const auto steps = trail_.steps();
  double longest = 0;
  Time last = before.seen;
  for (std::size_t i = known; i < steps.size(); ++i) {
    longest = std::max(longest, MillisSince(last, steps[i].seen));
    last = steps[i].seen;
  }
  return longest;
}

}  // namespace ringmaster::chaos
