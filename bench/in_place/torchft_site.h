#pragma once

// Runs torchft's replica groups, one rank per host, and its lighthouse on host 0. Restarts a
// replica that ended, as a cluster would.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/any_program/site.h"

namespace ringmaster::in_place {

class TorchftSite final : public any_program::Site {
 public:
  // `options.script` is train_torchft.py with the flags that all replicas share. Its folder also
  // contains torchft_lighthouse, which is started with the flags `lighthouse`.
  TorchftSite(const any_program::SiteOptions& options, std::vector<std::string> lighthouse);

  void Start() override;
  bool Knows(any_program::FaultKind kind) const override;
  std::optional<double> Strike(const any_program::Fault& fault) override;
  std::string Tend() override;
  bool Heal() override;
  std::string Log() const override;

  // Returns the number of replicas that ended although no fault was injected into them.
  int survivors_ended() const { return survivors_ended_; }

 private:
  void StartReplica(int worker);

  const any_program::SiteOptions options_;
  const std::vector<std::string> lighthouse_flags_;
  const runtime_test::Hosts hosts_;
  std::unique_ptr<runtime_test::Process> lighthouse_;
  std::map<int, int> host_of_;
  int spare_host_ = 0;
  std::map<int, std::unique_ptr<runtime_test::Process>> replicas_;
  std::unique_ptr<runtime_test::Process> cut_off_;
  std::set<int> struck_;  // workers with a fault that have not been restarted yet
  int survivors_ended_ = 0;
};

}  // namespace ringmaster::in_place
