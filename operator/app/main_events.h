#pragma once

// The events that the main thread waits for: SIGTERM, SIGINT, or a notification from another
// thread. It blocks in poll() without a period.

namespace ringmaster {

class MainEvents {
 public:
  enum class Event : char { kStop, kCachesFilled, kServerIsBack };

  // Blocks SIGTERM and SIGINT for this thread and all it starts later: construct before any other
  // thread exists.
  MainEvents();
  ~MainEvents();
  MainEvents(const MainEvents&) = delete;
  MainEvents& operator=(const MainEvents&) = delete;

  // From any thread.
  void Post(Event event) const;

  // Blocks until an event; both signals are kStop.
  Event Wait() const;

 private:
  int signals_ = -1;
  int pipe_[2] = {-1, -1};
};

}  // namespace ringmaster
