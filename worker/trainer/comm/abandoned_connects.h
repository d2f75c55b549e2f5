#pragma once

// Keeps the threads that are still connecting ranks of a world that has ended. If a peer published
// its address and disappeared, Gloo can block a thread until the deadline, and the thread cannot be
// woken. Such a thread is passed to this class, and the rank continues in the next world. More than
// a few such threads indicate a problem with this process or its network.

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/result.h"

namespace ringmaster::trainer {

// Thread-safe. The destructor waits for all threads, up to their deadlines.
class AbandonedConnects {
 public:
  static constexpr int kMost = 8;

  // Returns kInternal if kMost threads still hang; the process should then exit to be restarted.
  Result<void> Room();

  // Keeps `thread`, which must set `ended` to true just before it ends.
  void Take(std::jthread thread, std::shared_ptr<const std::atomic<bool>> ended);

  // Returns the number of threads that have not ended.
  int Hanging();

 private:
  struct Entry {
    std::shared_ptr<const std::atomic<bool>> ended;
    std::jthread thread;
  };

  Mutex mutex_;
  std::vector<Entry> entries_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::trainer
