#include "bench/chaos/stage.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/control/pod_contract.h"

namespace ringmaster::chaos {
namespace {

using runtime_test::Hosts;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

control::LaunchSpec Trainer(const StageOptions& options, const std::string& folder) {
  control::LaunchSpec spec;
  spec.command = TrainerArguments(options);
  spec.command.insert(spec.command.begin(), runtime_test::TrainProgram());
  spec.command.push_back("--audit-log=" + folder);
  return spec;
}

double MillisSince(Time begin, Time end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

Error Late(const std::string& what, const Fault* fault = nullptr) {
  const std::string after = fault == nullptr ? ""
                                             : std::string(" after ") + ToString(fault->kind) +
                                                   " of worker " + std::to_string(fault->worker);
  return {ErrorKind::kTimeout, what + " did not happen in time" + after};
}

}  // namespace

std::vector<std::string> TrainerArguments(const StageOptions& options) {
  return {"--workload=mnist",
          "--data=generated",
          "--generated-samples=2048",
          "--seed=7",
          "--global-batch=" + std::to_string(options.global_batch),
          "--steps=100000000",
          "--schedule=constant",
          "--learning-rate=0.001",
          "--step-log=none"};
}

Stage::Stage(const StageOptions& options, std::string folder)
    : options_(options),
      folder_(std::move(folder)),
      job_(1 + options.workers, Trainer(options_, folder_)),
      trail_(folder_),
      wanted_(options.at_first > 0 ? options.at_first : options.workers),
      pods_(static_cast<std::size_t>(options.workers), 1) {
  job_.launcher_extra[control::kEnvLostAfterMillis] = std::to_string(options_.lost_after.count());
}

void Stage::Order() {
  std::vector<int> all;
  for (int worker = 0; worker < wanted_; ++worker) all.push_back(worker);
  (void)job_.SendOrder(all, options_.min_replicas);
}

Result<void> Stage::Begin() {
  job_.StartLauncher(term_);
  StartWorkers(0, wanted_);
  Order();
  if (!trail_.Await(options_.limit, [](const Applied& newest) { return newest.step >= 5; })) {
    return Late("the first step");
  }
  return {};
}

void Stage::StartWorkers(int from, int to) {
  for (int worker = from; worker < to; ++worker) job_.StartAgent(worker);
}

Result<Outcome> Stage::Scale(int workers) {
  const std::size_t known = trail_.steps().size();
  const Applied before = trail_.newest();
  const Time asked = steady_clock::now();
  StartWorkers(wanted_, workers);
  wanted_ = workers;
  Order();
  if (auto whole = AwaitWhole(); !whole.ok()) return whole.error();
  Outcome outcome;
  outcome.whole = MillisSince(asked, steady_clock::now());
  outcome.longest_gap = LongestGapSince(known, before);
  return outcome;
}

void Stage::Replace(int worker) {
  int& pods = pods_[static_cast<std::size_t>(worker)];
  ++pods;
  job_.StartAgent(worker, "uid-" + std::to_string(worker) + "-" + std::to_string(pods));
  Order();
}

Result<void> Stage::AwaitWhole() {
  const Time until = steady_clock::now() + options_.limit;
  while (steady_clock::now() < until) {
    const control::LauncherStatus status = job_.Status();
    if (status.phase == control::LauncherPhase::kRunning && status.world_size == wanted_) {
      const control::Epoch whole = status.epoch;
      if (trail_.Await(options_.limit,
                       [&](const Applied& newest) { return newest.epoch >= whole; })) {
        return {};
      }
      return Late("a step of the whole world");
    }
  }
  return Late("a world of " + std::to_string(wanted_) + " (" + job_.Status().message + ")");
}

void Stage::Act(const Fault& fault) {
  runtime_test::Process& agent = job_.agent(fault.worker);
  switch (fault.kind) {
    case FaultKind::kKillRank:
      for (const pid_t rank : Hosts::Find(agent, "ringmaster-train")) kill(rank, SIGKILL);
      return;
    case FaultKind::kKillAgent:
      Hosts::Signal(agent, SIGKILL);
      return;
    case FaultKind::kStop:
      for (const pid_t rank : Hosts::Find(agent, "ringmaster-train")) kill(rank, SIGSTOP);
      Hosts::Signal(agent, SIGSTOP);
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

Result<Outcome> Stage::StrikeLauncher() {
  const Applied before = trail_.newest();
  const Time struck = steady_clock::now();
  Act({FaultKind::kLauncher, 0});
  (void)job_.launcher().Wait(options_.limit);
  job_.StartLauncher(++term_);
  Order();
  if (auto whole = AwaitWhole(); !whole.ok()) return whole.error();
  Outcome outcome;
  outcome.whole = MillisSince(struck, steady_clock::now());
  const bool went_on = trail_.Await(
      options_.limit, [&](const Applied& newest) { return newest.step > before.step + 1; });
  if (!went_on) return Late("a step under the new launcher");
  return outcome;
}

Result<Outcome> Stage::Strike(const Fault& fault) {
  const std::size_t known = trail_.steps().size();
  const Applied before = trail_.newest();
  Result<Outcome> outcome = Outcome{};
  const Time struck = steady_clock::now();
  if (fault.kind == FaultKind::kLauncher) {
    outcome = StrikeLauncher();
    if (!outcome.ok()) return outcome;
  } else {
    Act(fault);
    const bool went_on = trail_.Await(
        options_.limit, [&](const Applied& newest) { return newest.epoch > before.epoch; });
    if (!went_on) return Late("a step of the next world", &fault);
    const auto steps = trail_.steps();
    const auto first = std::find_if(steps.begin(), steps.end(), [&](const Applied& applied) {
      return applied.epoch > before.epoch;
    });
    outcome->first_step = MillisSince(struck, first->seen);
    if (const auto recovery = job_.Status().last_recovery) {
      outcome->detected = static_cast<double>(recovery->detected_millis);
    }
    if (fault.kind != FaultKind::kKillRank) {
      // The ghost comes back before its place is taken: nobody may let it in.
      if (fault.kind == FaultKind::kCut || fault.kind == FaultKind::kCutIn) {
        job_.hosts().SetCut(1 + fault.worker, false);
      }
      if (fault.kind == FaultKind::kStop) {
        for (const pid_t rank : Hosts::Find(job_.agent(fault.worker), "ringmaster-train")) {
          kill(rank, SIGCONT);
        }
        Hosts::Signal(job_.agent(fault.worker), SIGCONT);
      }
      if (!job_.agent(fault.worker).Wait(options_.limit)) return Late("the ghost's end", &fault);
      Replace(fault.worker);
    }
    if (auto whole = AwaitWhole(); !whole.ok()) {
      return whole.error().WithContext(std::string("after ") + ToString(fault.kind));
    }
    outcome->whole = MillisSince(struck, steady_clock::now());
  }
  outcome->longest_gap = LongestGapSince(known, before);
  return outcome;
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

Result<void> Stage::End() {
  // The others leave after a step that all of them did, and one rank alone cannot stop half-way:
  // so the logs end where the training did.
  (void)job_.SendOrder({0}, 1);
  const bool alone = runtime_test::WaitUntil(options_.limit, [&] {
    const control::LauncherStatus status = job_.Status();
    return status.phase == control::LauncherPhase::kRunning && status.world_size == 1;
  });
  if (!alone) return Late("a world of one worker");
  const control::Epoch last = job_.Status().epoch;
  if (!trail_.Await(options_.limit, [&](const Applied& newest) { return newest.epoch >= last; })) {
    return Late("a step of one worker");
  }
  for (int worker = 0; worker < wanted_; ++worker) {
    Hosts::Signal(job_.agent(worker), SIGKILL);
    (void)job_.agent(worker).Wait(options_.limit);
  }
  job_.launcher().Kill();
  return {};
}

}  // namespace ringmaster::chaos
