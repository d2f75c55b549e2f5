#pragma once

// The agent's side of a rank's position page (common/control/position_page.h). Each start of a rank
// gets a new page in anonymous memory of fixed size. Treats the content as untrusted.

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
  RankPage() = default;  // a page without memory; reads return nothing
  static Result<RankPage> Make();
  ~RankPage();
  RankPage(RankPage&& other) noexcept;
  RankPage& operator=(RankPage&& other) noexcept;

  // Returns the path at which a child process of the same user can open the page.
  std::string Path() const;

  // Returns nothing if the rank reports no position or an invalid one.
  std::optional<Reading> Read() const;
  // Returns the id of the last thread that wrote its stack; 0 if no thread has written one.
  std::int64_t NewestStack() const;
  // Returns the stacks that the rank's threads wrote on request, as printable text.
  std::string ReadStacks() const;
  // Returns the word at kOwnerWord, valid as long as this object; null if the page is not mapped.
  const std::atomic<std::uint32_t>* Owner() const;
  // Returns the id of the thread in the word at kOwnerWord; 0 if there is none.
  pid_t OwnerThread() const;

 private:
  explicit RankPage(int file) : file_(file) {}

  int file_ = -1;
  const control::PositionPage* mapped_ = nullptr;
};

// Returns the position to report to the launcher, from the rank's page. `now` is the time of the
// page's clock (MonotonicNanos), in nanoseconds. `stopped` is false: the caller sets it.
control::RankPosition PositionOf(const RankStanding& standing, const RankPage::Reading& reading,
                                 std::int64_t now);

}  // namespace ringmaster::agent
