#pragma once

// Says where this rank stands, in the page that its agent reads (common/control/position_page.h).
// Costs a few stores to memory and a reading of the clock per call; without a page nothing at all
// happens. Session and step loop call it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "common/base/result.h"
#include "common/control/position_page.h"

namespace ringmaster::trainer {

// Thread-safety: one thread, except WaitsFor().
class Position {
 public:
  Position() = default;  // says nothing
  ~Position();
  Position(const Position&) = delete;
  Position& operator=(const Position&) = delete;

  // From here on it is said in the file at `path`, and stacks are written there when they are asked
  // for, for as long as the process lives: both for the one position of a process.
  Result<void> Open(const std::string& path);

  // `observer` is told of every phase, too.
  void Observe(std::function<void(control::RankPhase)> observer) {
    observer_ = std::move(observer);
  }

  // A new phase; `bucket` counts what is waited for within it.
  void Enter(control::RankPhase phase, int bucket = 0);
  // The world that it is entering, and the steps applied so far.
  void EnterWorld(const control::Epoch& epoch);
  void SetStep(int64_t steps);
  // A step is applied: how long it took, and how long without waiting for others.
  void Applied(int64_t steps, std::chrono::nanoseconds took, std::chrono::nanoseconds own);

  // The rank that is waited for; -1: nobody in particular. Any thread.
  void WaitsFor(int peer);

 private:
  void Write();

  control::PositionPage* page_ = nullptr;
  control::PagePosition now_;
  std::function<void(control::RankPhase)> observer_;
};

}  // namespace ringmaster::trainer
