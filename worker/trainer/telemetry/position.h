#pragma once

// Reports this rank's position in the page that its agent reads (common/control/position_page.h). A
// call costs a few stores and a reading of the clock; without a page, calls do nothing. Used by the
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

// Thread-safety: one thread, except WaitsFor(), ComesTo() and Counts().
class Position final : public RankPosition {
 public:
  Position() = default;  // says nothing
  ~Position() override;

  // From here on it is said in the file at `path`, and stacks are written there when they are asked
  // for, for as long as the process lives: both for the one position of a process.
  Result<void> Open(const std::string& path);

  // `observer` also receives each phase.
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
