#pragma once

// Waits for child processes: those that this process started and, if it is PID 1 or a subreaper,
// orphans of other programs. Calls one handler when a started child exits; orphans are only reaped.
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

// How a process ended. Exactly one of the two fields is set.
struct ProcessEnd {
  int exit_code = -1;
  int signal = 0;
};

class ChildReaper {
 public:
  using EndHandler = std::function<void(ProcessEnd)>;

  // Also makes this process the subreaper: the new parent of orphaned descendants.
  explicit ChildReaper(boost::asio::io_context& io);

  boost::asio::io_context& io() const { return io_; }

  // REQUIRES: `pid` is a child that no other code waits for. Call this before the io_context runs
  // again.
  void Watch(pid_t pid, EndHandler on_end);

  // Ends the child's process group: SIGTERM now, SIGKILL after `grace` if the child still runs.
  // Does nothing if the child has ended or Stop() was called for it before.
  void Stop(pid_t pid, std::chrono::milliseconds grace);

  // Kills the remaining processes in the group of a child that has ended. Call from its handler.
  static void KillGroup(pid_t pid);

  // Kills orphans that were reparented to this process, and processes that are reparented as a
  // result. Blocks until all have ended, for at most `limit`.
  void KillOrphans(std::chrono::milliseconds limit);

  bool Running(pid_t pid) const { return children_.contains(pid); }

  // Kills every child, watched or reparented, and processes that are reparented as a result, for at
  // most `limit`. Call it just before this process exits; no handler runs.
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
