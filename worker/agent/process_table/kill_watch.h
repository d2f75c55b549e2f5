#pragma once

// Detects early that a rank was killed. A killed process counts as ended, and its connections
// close, only when the kernel has freed its memory. With PyTorch on a CPU, freeing the memory takes
// about 60 ms. Before that, the kernel marks a word of the rank's position page (kOwnerWord in
// common/control/position_page.h). A thread of this class waits for the word to change. The watch
// then reads /proc to find out whether the process is ending, and by which signal.

#include <functional>
#include <memory>
#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "worker/agent/process_table/rank_page.h"

namespace ringmaster::agent {

class KillWatch {
 public:
  // `on_killed` runs at most once, on `io`, when SIGKILL is ending `process`, and never after this
  // object is destroyed. The caller ends the watch before the pid may be reused. Returns null if
  // the page names no thread of the rank, for example because the kernel has no robust futexes.
  static std::unique_ptr<KillWatch> Start(boost::asio::io_context& io,
                                          std::shared_ptr<const RankPage> page, pid_t process,
                                          std::function<void()> on_killed);
  ~KillWatch();
  KillWatch(const KillWatch&) = delete;
  KillWatch& operator=(const KillWatch&) = delete;

 private:
  class Wait;

  KillWatch(boost::asio::io_context& io, pid_t process, std::function<void()> on_killed);
  void Look(int times);

  const pid_t process_;
  const std::function<void()> on_killed_;
  boost::asio::steady_timer again_;
  std::shared_ptr<Wait> wait_;
};

}  // namespace ringmaster::agent
