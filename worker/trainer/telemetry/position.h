#pragma once

// Writes this rank's position to the page that its agent reads (common/control/position_page.h). A
// call costs a few stores and one clock reading. Without a page, calls do nothing. Used by the
// session and the step loop.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "common/base/result.h"
#include "common/control/position_page.h"
#include "worker/trainer/elastic/step_observers.h"

namespace ringmaster::trainer {

// Not thread-safe, except WaitsFor(), ComesTo() and Counts().
class Position final : public RankPosition {
 public:
  Position() = default;  // has no page
  ~Position() override;

  // From now on, until the process ends, writes the position, and the stacks that the agent
  // requests, to the file at `path`. Call it at most once per process.
  Result<void> Open(const std::string& path);

  // Sets a function that is called with each phase that begins.
  void Observe(std::function<void(control::RankPhase)> observer) {
    observer_ = std::move(observer);
  }

  void Enter(control::RankPhase phase, int bucket = 0) override;
  void EnterWorld(const control::Epoch& epoch) override;
  void SetStep(int64_t steps) override;
  void Applied(int64_t steps, std::chrono::nanoseconds took, std::chrono::nanoseconds own) override;
  void WaitsFor(int peer) override;
  void ComesTo(control::ConnectStage stage) override;
  void Counts(const control::CollectiveCounts& counts) override;

 private:
  void Write();

  control::PositionPage* page_ = nullptr;
  control::PagePosition now_;
  std::function<void(control::RankPhase)> observer_;
};

}  // namespace ringmaster::trainer
