#pragma once

// The agent's side of a rank's position page (common/control/position_page.h). Each start of a rank
// gets a new page in anonymous memory of fixed size. Reads do not trust the content.

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

#include "common/base/result.h"
#include "common/control/membership.h"
#include "common/control/position_page.h"
#include "worker/agent/slots/slot_actions.h"

namespace ringmaster::agent {

class RankPage {
 public:
  struct Reading {
    control::PagePosition position;
    int peer = -1;
    control::ConnectStage connect_stage = control::ConnectStage::kBegin;
    control::CollectiveCounts collectives{};
  };
  RankPage() = default;  // has no memory; reads return nothing
  static Result<RankPage> Make();
  ~RankPage();
  RankPage(RankPage&& other) noexcept;
  RankPage& operator=(RankPage&& other) noexcept;

  // The path at which a child process of the same user can open the page.
  std::string Path() const;

  // Empty if the rank reports no position or an invalid one.
  std::optional<Reading> Read() const;
  // The thread that wrote its stack last; 0 if no thread has written one.
  std::int64_t NewestStack() const;
  // The stacks that the rank's threads wrote when asked: printable text.
  std::string ReadStacks() const;
  // The word at kOwnerWord, valid as long as this object; null if the page cannot be mapped.
  const std::atomic<std::uint32_t>* Owner() const;
  // The thread that the word at kOwnerWord names; 0: none.
  pid_t OwnerThread() const;

 private:
  explicit RankPage(int file) : file_(file) {}

  int file_ = -1;
  const control::PositionPage* mapped_ = nullptr;
};

// The position to report to the launcher, from the rank's page. `now` is a time of the page's clock
// (MonotonicNanos), in nanoseconds. `stopped` is false, because the page does not show it.
control::RankPosition PositionOf(const RankStanding& standing, const RankPage::Reading& reading,
                                 std::int64_t now);

}  // namespace ringmaster::agent
