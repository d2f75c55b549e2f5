#include <csignal>
#include <map>
#include <utility>

#include "bench/any_program/site.h"
#include "bench/any_program/step_log.h"
#include "common/control/pod_contract.h"
#include "tests/runtime/job.h"

namespace ringmaster::any_program {
namespace {

using runtime_test::Hosts;
using runtime_test::Job;
using runtime_test::Process;
using runtime_test::ReadFile;
using runtime_test::Seconds;

constexpr char kLostAfterMillis[] = "2000";  // the default
constexpr Seconds kEndLimit{30};

control::LaunchSpec Torchrun(const SiteOptions& options) {
  control::LaunchSpec spec;
  spec.command = {"python", "-m", "torch.distributed.run"};
  spec.command.insert(spec.command.end(), options.script.begin(), options.script.end());
  spec.ranks_per_process = options.ranks;
  return spec;
}

class RingmasterSite final : public Site {
 public:
  explicit RingmasterSite(const SiteOptions& options)
      : options_(options),
        job_(2 + options.workers, Torchrun(options)),
        spare_host_(1 + options.workers) {
    for (int worker = 0; worker < options_.workers; ++worker) {
      workers_.push_back(worker);
      job_.host_network[worker] = 1 + worker;
    }
    job_.worker_extra = job_.launcher_extra = options_.variables;
    job_.launcher_extra[control::kEnvLostAfterMillis] = kLostAfterMillis;
    // The values that spec.runPolicy.restart would set for a job that expects a hundred faults.
    job_.launcher_extra[control::kEnvRestartLimit] = "1000000";
    job_.launcher_extra[control::kEnvCrashLimit] = "1000000";
  }

  void Start() override {
    if (term_ > 0) {
      job_.launcher().Kill();
      for (const int worker : workers_) job_.agent(worker).Kill();
    }
    job_.StartLauncher(++term_);
    for (const int worker : workers_) StartAgent(worker);
    Order();
  }

  bool Knows(FaultKind /*kind*/) const override { return true; }

  std::optional<double> Strike(const Fault& fault) override {
    switch (fault.kind) {
      case FaultKind::kKillRank: {
        const std::vector<pid_t> ranks = Find(job_.agent(fault.worker)).ranks;
        kill(ranks.at(static_cast<std::size_t>(fault.rank)), SIGKILL);
        return std::nullopt;
      }
      case FaultKind::kKillProgram:
        kill(Find(job_.agent(fault.worker)).torchrun.at(0), SIGKILL);
        return std::nullopt;
      case FaultKind::kKillAgent:
        Hosts::Signal(job_.agent(fault.worker), SIGKILL);
        (void)job_.agent(fault.worker).Wait(kEndLimit);
        return std::nullopt;
      case FaultKind::kCut:
        return Cut(fault.worker);
      case FaultKind::kKillLauncher:
        Hosts::Signal(job_.launcher(), SIGKILL);
        (void)job_.launcher().Wait(kEndLimit);
        job_.StartLauncher(++term_);
        Order();
        return std::nullopt;
    }
    return std::nullopt;
  }

  std::string Tend() override {
    if (job_.launcher().Wait(Seconds(0))) {
      return "the launcher exited: " + ReadFile(job_.Path("verdict"));
    }
    for (const int worker : workers_) {
      if (!job_.agent(worker).Wait(Seconds(0))) continue;
      const std::string ended = PodUid(worker);
      StartAgent(worker);
      Order({ended});
    }
    return "";
  }

  bool Heal() override {
    if (cut_off_ == nullptr) return true;
    job_.hosts().SetCut(spare_host_, false);
    const bool ended = cut_off_->Wait(kEndLimit).has_value();
    cut_off_.reset();
    return ended;
  }

  std::string Log() const override { return job_.Log(); }

 private:
  std::string PodUid(int worker) const {
    return "uid-" + std::to_string(worker) + "-" + std::to_string(pods_.at(worker));
  }

  void StartAgent(int worker) {
    ++pods_[worker];
    job_.StartAgent(worker, PodUid(worker),
                    {{control::kEnvRuntimeDir, job_.Path("run-" + PodUid(worker))}});
  }

  void Order(const std::vector<std::string>& dead = {}) { (void)job_.SendOrder(workers_, 0, dead); }

  // Cuts off the worker's host. The Pod continues to run, and no report says that it has ended.
  std::optional<double> Cut(int worker) {
    const double cut = Now();
    int& host = job_.host_network.at(worker);
    job_.hosts().SetCut(host, true);
    const std::string pod_uid = PodUid(worker);
    const bool noticed = runtime_test::WaitUntil(kEndLimit, [&] {
      for (const control::WorkerReport& report : job_.Status().workers) {
        if (report.pod_uid == pod_uid && report.fenced) return true;
      }
      return false;
    });
    const double seconds = noticed ? Now() - cut : -1;
    cut_off_ = job_.TakeAgent(worker);
    std::swap(host, spare_host_);
    StartAgent(worker);
    Order();
    return seconds;
  }

  const SiteOptions options_;
  Job job_;
  std::vector<int> workers_;
  std::map<int, int> pods_;  // number of Pods created so far for each worker
  int term_ = 0;
  int spare_host_;
  std::unique_ptr<Process> cut_off_;
};

}  // namespace

std::unique_ptr<Site> UnderRingmaster(const SiteOptions& options) {
  return std::make_unique<RingmasterSite>(options);
}

Programs Find(const Process& container) {
  Programs found;
  for (const pid_t process : Hosts::Find(container, "python")) {
    const std::string command = ReadFile("/proc/" + std::to_string(process) + "/cmdline");
    const bool is_torchrun = command.find("torch.distributed.run") != std::string::npos;
    (is_torchrun ? found.torchrun : found.ranks).push_back(process);
  }
  return found;
}

}  // namespace ringmaster::any_program
