#pragma once

// Waits for child processes: those that this process started and, as PID 1 or subreaper, orphans of
// other programs. Calls one handler when a started child exits; orphans are only reaped.
// Single-threaded, on the io_context's thread.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

namespace ringmaster {

// How a process ended: exactly one of the two is set.
struct ProcessEnd {
  int exit_code = -1;
  int signal = 0;
};

class ChildReaper {
 public:
  using EndHandler = std::function<void(ProcessEnd)>;

  // Also makes this process the one that orphaned descendants fall to.
  explicit ChildReaper(boost::asio::io_context& io);

  boost::asio::io_context& io() const { return io_; }

  // REQUIRES: `pid` is a child for which no other code waits. Call before the io_context runs
  // again.
  void Watch(pid_t pid, EndHandler on_end);

  // Ends the child's process group: SIGTERM now, SIGKILL after `grace` if it still runs. Nothing
  // when it has ended, or is ending so.
  void Stop(pid_t pid, std::chrono::milliseconds grace);

  // Kills what is left in the process group of a child that ended: call from its handler.
  static void KillGroup(pid_t pid);

  // Kills the orphans of all children that were reparented to this process, and those that appear
  // when they end. Blocks until none is left, at most for `limit`.
  void KillOrphans(std::chrono::milliseconds limit);

  bool Running(pid_t pid) const { return children_.contains(pid); }
  bool AnyRunning() const { return !children_.empty(); }

  // Kills every child, watched or fallen to us, and what falls to us by that, until none is left or
  // `limit` has passed. For the very end of the process; no handler runs.
  static void KillAll(std::chrono::milliseconds limit);

 private:
  struct Child {
    EndHandler on_end;
    std::unique_ptr<boost::asio::steady_timer> kill_timer;
  };

  void AwaitSignal();
  void Reap();

  boost::asio::io_context& io_;
  boost::asio::signal_set signals_;
  std::map<pid_t, Child> children_;
};

}  // namespace ringmaster
