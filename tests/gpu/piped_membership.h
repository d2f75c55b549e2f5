#pragma once

// A MembershipSource whose worlds the test process orders through a pipe, in lines of these forms:
//   world <number> <rank> <size> <folder of its store>
//   leave <number>
//   end
// A new world aborts the current world at once, as a launcher does after a loss. After
// `leave`, the ranks leave their world together at the end of a step, as when workers join or leave
// gracefully; the next world may be ordered at once.

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "worker/trainer/elastic/membership_source.h"

namespace ringmaster::trainer {

// The object must live until the process ends.
class PipedMembership final : public MembershipSource {
 public:
  explicit PipedMembership(int orders);

  Result<World> AwaitWorld(control::Epoch after) override;
  void Watch(control::Epoch epoch, OverCallback over) override;
  void Unwatch() override;
  bool SwitchWanted(control::Epoch epoch, int64_t) override { return IsLeft(epoch); }
  void Broken(const World&, int, const std::string&) override {}
  void AtBoundary(const World&, int64_t) override {}
  void Report(const World&, const control::Progress&) override {}
  Result<bool> Finish(const World&, const control::Progress&) override { return true; }

  void AwaitEnd();

 private:
  void Read(int orders);
  bool IsLeft(control::Epoch epoch) const { return left_ == epoch.number; }

  std::atomic<int64_t> left_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<World> newest_;
  bool ended_ = false;
  control::Epoch watched_;
  OverCallback over_;
  std::jthread reader_;
};

}  // namespace ringmaster::trainer
