#include "bench/in_place/torchft_site.h"

#include <csignal>
#include <thread>
#include <utility>

namespace ringmaster::in_place {
namespace {

using any_program::Fault;
using any_program::FaultKind;
using runtime_test::Hosts;
using runtime_test::Process;
using runtime_test::Variables;

constexpr std::chrono::milliseconds kDetectionTime{
    2000};  // Ringmaster detects a cut after this time
constexpr char kPort[] = "29510";

}  // namespace

TorchftSite::TorchftSite(const any_program::SiteOptions& options,
                         std::vector<std::string> lighthouse)
    : options_(options), lighthouse_flags_(std::move(lighthouse)), hosts_(2 + options.workers) {}

void TorchftSite::Start() {
  (void)Heal();
  replicas_.clear();
  struck_.clear();
  std::vector<std::string> command = {"python", options_.folder + "/torchft_lighthouse",
                                      std::string("--bind=0.0.0.0:") + kPort, "--min_replicas=1"};
  command.insert(command.end(), lighthouse_flags_.begin(), lighthouse_flags_.end());
  lighthouse_ = hosts_.Start(0, hosts_.Address(0), options_.variables, command,
                             options_.folder + "/torchft-lighthouse.log");
  spare_host_ = 1 + options_.workers;
  for (int worker = 0; worker < options_.workers; ++worker) {
    host_of_[worker] = 1 + worker;
    StartReplica(worker);
  }
}

bool TorchftSite::Knows(FaultKind kind) const {
  return kind == FaultKind::kKillRank || kind == FaultKind::kCut;
}

std::optional<double> TorchftSite::Strike(const Fault& fault) {
  if (fault.kind == FaultKind::kKillRank) {
    struck_.insert(fault.worker);
    Hosts::Signal(*replicas_.at(fault.worker), SIGKILL);
    return std::nullopt;
  }
  int& host = host_of_.at(fault.worker);
  hosts_.SetCut(host, true);
  std::this_thread::sleep_for(kDetectionTime);
  cut_off_ = std::move(replicas_.at(fault.worker));
  std::swap(host, spare_host_);
  StartReplica(fault.worker);
  return std::nullopt;
}

std::string TorchftSite::Tend() {
  if (lighthouse_->Wait(std::chrono::milliseconds(0))) return "the lighthouse exited";
  for (const auto& [worker, host] : host_of_) {
    if (!replicas_.at(worker)->Wait(std::chrono::milliseconds(0))) continue;
    if (struck_.erase(worker) == 0) ++survivors_ended_;
    StartReplica(worker);
  }
  return "";
}

bool TorchftSite::Heal() {
  if (cut_off_ == nullptr) return true;
  cut_off_.reset();
  hosts_.SetCut(spare_host_, false);
  return true;
}

std::string TorchftSite::Log() const {
  std::string text = "--- lighthouse\n" + lighthouse_->Log();
  for (const auto& [worker, replica] : replicas_) {
    text += "--- replica " + std::to_string(worker) + "\n" + replica->Log();
  }
  return text;
}

// Starts a replica whose host name is the host's address, because peers fetch states by host name.
void TorchftSite::StartReplica(int worker) {
  const std::string address = hosts_.Address(host_of_.at(worker));
  std::vector<std::string> command = {"python"};
  command.insert(command.end(), options_.script.begin(), options_.script.end());
  for (const std::string& flag :
       {"--replica=" + std::to_string(worker), "--replicas=" + std::to_string(options_.workers),
        "--address=" + address, "--lighthouse=http://" + hosts_.Address(0) + ":" + kPort}) {
    command.push_back(flag);
  }
  Variables variables = options_.variables;
  variables["HOME"] = "/root";
  variables["OMP_NUM_THREADS"] = "1";
  replicas_[worker] = hosts_.Start(host_of_.at(worker), address, variables, command,
                                   options_.folder + "/torchft-" + std::to_string(worker) + ".log");
}

}  // namespace ringmaster::in_place
