#pragma once

// The events that the main thread waits for: SIGTERM, SIGINT, or a notification from another
// thread. The main thread waits in poll() without a timeout.

namespace ringmaster {

class MainEvents {
 public:
  enum class Event : char { kStop, kCachesFilled, kServerIsBack };

  // Blocks SIGTERM and SIGINT for this thread and all threads that it starts later. REQUIRES: no
  // other thread exists yet.
  MainEvents();
  ~MainEvents();
  MainEvents(const MainEvents&) = delete;
  MainEvents& operator=(const MainEvents&) = delete;

  // Sends an event to the main thread. Can be called from any thread.
  void Post(Event event) const;

  // Blocks until there is an event. Both signals cause kStop.
  Event Wait() const;

 private:
  int signals_ = -1;
  int pipe_[2] = {-1, -1};
};

}  // namespace ringmaster
