#include <csignal>
#include <map>
#include <thread>
#include <utility>

#include "bench/any_program/site.h"

namespace ringmaster::any_program {
namespace {

using runtime_test::Hosts;
using runtime_test::Process;
using runtime_test::Variables;

constexpr std::chrono::milliseconds kDetectionTime{2000};
constexpr int kMeetingHost = 1;  // host of the first worker
constexpr int kPort = 29400;

class TorchrunSite final : public Site {
 public:
  explicit TorchrunSite(const SiteOptions& options)
      : options_(options), hosts_(2 + options.workers) {}

  void Start() override {
    (void)Heal();
    containers_.clear();
    spare_host_ = 1 + options_.workers;
    for (int worker = 0; worker < options_.workers; ++worker) {
      host_of_[worker] = kMeetingHost + worker;
      StartContainer(worker);
    }
  }

  bool Knows(FaultKind kind) const override { return kind != FaultKind::kKillLauncher; }

  std::optional<double> Strike(const Fault& fault) override {
    Process& container = *containers_.at(fault.worker);
    switch (fault.kind) {
      case FaultKind::kKillRank:
        kill(Find(container).ranks.at(static_cast<std::size_t>(fault.rank)), SIGKILL);
        return std::nullopt;
      case FaultKind::kCut: {
        int& host = host_of_.at(fault.worker);
        hosts_.SetCut(host, true);
        std::this_thread::sleep_for(kDetectionTime);
        cut_off_ = std::move(containers_.at(fault.worker));
        std::swap(host, spare_host_);
        StartContainer(fault.worker);
        return std::nullopt;
      }
      default:  // torchrun is the container's first process
        Hosts::Signal(container, SIGKILL);
        return std::nullopt;
    }
  }

  std::string Tend() override {
    for (const auto& [worker, host] : host_of_) {
      if (containers_.at(worker)->Wait(std::chrono::milliseconds(0))) StartContainer(worker);
    }
    return "";
  }

  // Ends the processes on the host first: they would try to reach the other workers for ever.
  bool Heal() override {
    if (cut_off_ == nullptr) return true;
    cut_off_.reset();
    hosts_.SetCut(spare_host_, false);
    return true;
  }

  std::string Log() const override {
    std::string text;
    for (const auto& [worker, container] : containers_) {
      text += "--- worker " + std::to_string(worker) + "\n" + container->Log();
    }
    return text;
  }

 private:
  void StartContainer(int worker) {
    const int host = host_of_.at(worker);
    std::vector<std::string> command = {
        "python",
        "-m",
        "torch.distributed.run",
        "--nnodes=" + std::to_string(options_.workers),
        "--nproc-per-node=" + std::to_string(options_.ranks),
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=" + hosts_.Address(kMeetingHost) + ":" + std::to_string(kPort),
        std::string("--rdzv-conf=is_host=") + (host == kMeetingHost ? "1" : "0"),
        "--rdzv-id=any",
        "--local-addr=" + hosts_.Address(host),
        "--max-restarts=1000000"};
    command.insert(command.end(), options_.script.begin(), options_.script.end());
    Variables variables = options_.variables;
    variables["HOME"] = "/root";
    variables["OMP_NUM_THREADS"] = "1";
    // Without this, a restarted rank may read a killed rank's addresses (pytorch issue 135712).
    variables["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1";
    containers_[worker] =
        hosts_.Start(host, "node-" + std::to_string(host), variables, command,
                     options_.folder + "/torchrun-" + std::to_string(worker) + ".log");
  }

  const SiteOptions options_;
  const Hosts hosts_;
  std::map<int, int> host_of_;
  int spare_host_ = 0;
  std::map<int, std::unique_ptr<Process>> containers_;
  std::unique_ptr<Process> cut_off_;
};

}  // namespace

std::unique_ptr<Site> UnderTorchrun(const SiteOptions& options) {
  return std::make_unique<TorchrunSite>(options);
}

}  // namespace ringmaster::any_program
