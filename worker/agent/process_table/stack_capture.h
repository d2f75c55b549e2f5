#pragma once

// Captures the stacks of all threads of a process without a debugger. Reads the kernel's list of
// threads. If the rank answers the stack signal (position_page.h), adds the stack that each thread
// reports, or all stacks that Python wrote for the first thread that answered. For threads that do
// not answer in time, are stopped or wait uninterruptibly, the capture contains only the kernel's
// information. Single-threaded, on its io_context.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "worker/agent/process_table/rank_page.h"
#include "worker/agent/process_table/thread_list.h"

namespace ringmaster::agent {

class StackCapture : public std::enable_shared_from_this<StackCapture> {
 public:
  struct Limits {
    std::chrono::milliseconds all{500};
    std::chrono::milliseconds thread{100};
    std::size_t threads = 64;
  };
  using Done = std::function<void(const std::string& text)>;

  // `page` belongs to the process; null if the process has none. `done` runs once, and never from
  // inside this call.
  static void Start(boost::asio::io_context& io, pid_t process,
                    std::shared_ptr<const RankPage> page, const Limits& limits, Done done);

  StackCapture(boost::asio::io_context& io, pid_t process, std::shared_ptr<const RankPage> page,
               const Limits& limits, Done done);

 private:
  using Clock = std::chrono::steady_clock;

  void Ask();
  void Look();
  void After(std::chrono::milliseconds delay, void (StackCapture::*next)());
  void Finish();
  std::string NewText() const;

  boost::asio::steady_timer timer_;
  const pid_t process_;
  const std::shared_ptr<const RankPage> page_;
  const Limits limits_;
  const Done done_;
  std::size_t count_ = 0;  // number of all threads; precedes threads_, whose initializer sets it
  std::vector<ThreadInfo> threads_;
  std::size_t next_ = 0;     // index in threads_ of the next thread to ask
  std::size_t written_ = 0;  // bytes of stacks written before this capture
  Clock::time_point deadline_;
  Clock::time_point thread_deadline_;
};

}  // namespace ringmaster::agent
