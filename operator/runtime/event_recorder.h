#pragma once

// Records Kubernetes events (events.k8s.io/v1) about jobs, shown by kubectl describe and get
// events. Recording never blocks or fails: events go through a bounded queue to one thread. Events
// that the API server temporarily refuses are retried with growing delays for ten minutes, without
// blocking others. Events that the server rejects, or that do not fit into the queue, are dropped
// and counted. A repetition within six minutes increases the count (`series`) of the first event.
// Record an event after the status write it belongs to, and do not base decisions on events.

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>

#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "operator/kube/kube_client.h"

namespace ringmaster::runtime {

enum class EventType { kNormal, kWarning };

struct ObjectReference {
  std::string api_version{};
  std::string kind{};
  std::string ns{};
  std::string name{};
  std::string uid{};

  friend auto operator<=>(const ObjectReference&, const ObjectReference&) = default;
};

struct Event {
  ObjectReference regarding{};
  std::optional<ObjectReference> related{};
  EventType type = EventType::kNormal;
  std::string reason{};  // CamelCase, from reasons.h
  std::string action{};  // CamelCase: what the operator does
  std::string note{};    // message for users; cut at 1024 bytes
};

// The interface that reconcilers use to record events.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void Record(Event event) = 0;
};

struct EventRecorderOptions {
  std::string reporting_controller = "ringmaster.dev/operator";
  std::string reporting_instance{};  // Pod name
  // A full queue drops its oldest refused event or, if none was refused, its oldest event.
  std::size_t max_queued = 1000;
  BackoffOptions backoff{
      .initial = std::chrono::seconds(1), .limit = std::chrono::seconds(60), .jitter = 0.2};
  std::chrono::seconds keep_trying{600};
  std::function<void()> on_dropped{};  // called per dropped event, on any thread; must not block
  std::chrono::seconds series_window{360};
};

// Thread-safe.
class EventRecorder final : public EventSink {
 public:
  // `client` and `clock` must outlive the recorder.
  EventRecorder(kube::KubeClient& client, const Clock& clock, EventRecorderOptions options);
  ~EventRecorder() override;  // stops sending and joins its thread

  void Start();
  void Record(Event event) override;

  // Waits up to `limit` until only refused events are left in the queue.
  void Flush(std::chrono::milliseconds limit);

  // Sends one event that is due, as the thread does in a loop. Returns false if no event was due.
  // For tests.
  bool SendOne();

  int64_t dropped() const { return dropped_; }

 private:
  struct Queued {
    Event event;
    Clock::WallTime at;       // wall-clock time of the event, which the API object contains
    Clock::Time recorded_at;  // the same time on the monotonic clock
    Clock::Time due;          // the earliest time of the next try
    int refusals = 0;
  };
  struct Sent {  // a stored event, whose count grows with each repetition
    std::string name;
    int count = 1;
    Clock::Time last;
  };

  void Work(std::stop_token stop);
  // The Send functions return the API server's answer.
  Result<void> Send(const Queued& queued);
  Result<void> SendRepetition(const Queued& queued, Sent& sent);
  Result<void> SendFirst(const Queued& queued);
  void ForgetOld();
  std::deque<Queued>::iterator NextDue(Clock::Time now) RINGMASTER_REQUIRES(mutex_);
  std::optional<Clock::Time> FirstDue() const RINGMASTER_REQUIRES(mutex_);
  void Refused(Queued queued, const Error& error) RINGMASTER_REQUIRES(mutex_);
  void Push(Queued queued) RINGMASTER_REQUIRES(mutex_);
  void Drop(const Queued& queued, const std::string& why) RINGMASTER_REQUIRES(mutex_);

  // Constant after construction.
  kube::KubeClient& client_;
  const Clock& clock_;
  const EventRecorderOptions options_;

  std::atomic<int64_t> dropped_{0};

  // Used only by the sending thread.
  std::map<std::string, Sent> sent_;
  std::minstd_rand random_{std::random_device{}()};

  Mutex mutex_;
  StoppableCondVar changed_;
  std::deque<Queued> queue_ RINGMASTER_GUARDED_BY(mutex_);
  Clock::Time paused_until_ RINGMASTER_GUARDED_BY(mutex_){};  // end of the API server's Retry-After
  bool sending_ RINGMASTER_GUARDED_BY(mutex_) = false;

  std::jthread thread_;
};

}  // namespace ringmaster::runtime
