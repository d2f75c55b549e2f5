#pragma once

// Keeps a Store in sync with the API server's objects of one resource. One thread lists the objects
// and then watches them. It starts with a WatchList (the server streams the existing objects, then
// a marked bookmark), or with paged lists if the server does not support WatchList. It recovers
// from broken and silent streams, expired versions (410: it lists again; the store keeps the old
// content meanwhile), throttling and missing permissions; Problem() reports them. If a page is too
// long, it requests half as many objects. If a single object is too long, the reflector skips it
// and writes a log line.
//
//   Empty ──► InitialWatch ──────► Watching ──► (410, bad event) Empty
//     └─────► Paging (page by page) ──►  └────► (ended) Watching from the last version seen

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <variant>

#include <nlohmann/json_fwd.hpp>

#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "operator/kube/kube_client.h"
#include "operator/runtime/store_writer.h"

namespace ringmaster::runtime {

struct ReflectorOptions {
  kube::Resource resource{};
  // Called once, on the reflector's thread, when the first list is in the store.
  std::function<void()> on_synced{};
  std::string ns{};  // empty: all namespaces
  std::string label_selector{};
  BackoffOptions backoff{.initial = std::chrono::milliseconds(800),
                         .limit = std::chrono::seconds(30),
                         .factor = 2.0,
                         .jitter = 1.0};
  std::chrono::milliseconds forbidden_limit{10'000};  // short: permissions may be granted any time
  // The back-off if the server is unreachable or unavailable, or if the version has expired. It is
  // short, because the operator sees no changes until the watch works, and a request costs little.
  BackoffOptions blind_backoff{.initial = std::chrono::milliseconds(100),
                               .limit = std::chrono::seconds(2),
                               .factor = 2.0,
                               .jitter = 1.0};
  // Called on the reflector's thread when a watch that had failed works again.
  std::function<void()> on_recovered{};
  // After a watch that lasted this long, the failure count is reset and the next watch starts at
  // once. A connection that breaks every few seconds thus causes neither delays nor many requests.
  std::chrono::milliseconds healthy_after{1'000};
  std::chrono::seconds shortest_watch{
      300};  // each watch requests a random duration between these two
  std::chrono::seconds longest_watch{600};
};

// Whether the server supports WatchList. All reflectors share this value; the first reflector that
// the server refuses sets it to false.
struct WatchListSupport {
  std::atomic<bool> usable{true};
};

// Observes the reflector; metrics.h implements it. Called on the reflector's thread.
class ReflectorObserver {
 public:
  virtual ~ReflectorObserver() = default;
  virtual void OnEvent(const kube::Resource&) {}
  virtual void OnListed(const kube::Resource&) {}
  virtual void OnFailure(const kube::Resource&, ErrorKind) {}
};

class Reflector {
 public:
  // All references must outlive the reflector. `client`'s idle limit must be longer than the
  // server's bookmark interval (one minute), so that only dead connections exceed it.
  Reflector(kube::KubeClient& client, const Clock& clock, StoreWriter& store,
            WatchListSupport& watch_list, ReflectorOptions options,
            ReflectorObserver* observer = nullptr);
  ~Reflector();  // stops

  void Start();
  void Stop();  // ends a watch in progress immediately

  // Ends the current stream and opens another one from the last version seen. Call it, on any
  // thread, if the stream did not deliver an expected event, because its connection may be dead.
  void Reconnect();

  bool Synced() const { return synced_; }  // whether the first full list is in the store
  // Returns a sentence about why the watch fails; empty while it works.
  std::string Problem() const;
  // Returns true if the thread runs and has made progress within `limit`.
  bool Healthy(std::chrono::milliseconds limit) const;

  // Executes one step of the state machine, as the thread does in a loop. Returns the time until
  // the next step. For tests.
  std::chrono::milliseconds Step(std::stop_token stop);

 private:
  struct Empty {};
  struct InitialWatch {};
  struct Paging {
    std::string continue_token{};
    int limit = kube::ListOptions{}.limit;
  };
  struct Watching {
    std::string resource_version;
  };
  using State = std::variant<Empty, InitialWatch, Paging, Watching>;

  void Work(std::stop_token stop);
  std::chrono::milliseconds StepEmpty();
  std::chrono::milliseconds StepInitialWatch(std::stop_token stop);
  std::chrono::milliseconds StepPaging(const Paging& paging, std::stop_token stop);
  // Handles a page that is longer than the client's limit.
  std::chrono::milliseconds ShortenPage(const Paging& paging, std::stop_token stop);
  std::chrono::milliseconds StepWatching(const Watching& watching, std::stop_token stop);

  Result<void> RunWatch(const std::string& from_version, bool initial, const std::stop_token& stop);
  Result<void> HandleLine(std::string_view line, bool& initial);
  Result<void> HandleBookmark(const nlohmann::json& object, bool& initial);
  void HandleObject(const std::string& type, const nlohmann::json& object, bool initial);
  // Handles an event that is too long to read: removes its object from the store.
  void PassOver(std::string_view beginning, bool initial);
  std::chrono::milliseconds Recover(const Error& error);
  std::chrono::milliseconds NextDelay(const BackoffOptions& backoff);
  std::chrono::milliseconds NextDelay() { return NextDelay(options_.backoff); }
  void WatchEnded(std::chrono::nanoseconds lasted);
  void Listed(const std::string& resource_version);
  void SetProblem(const std::string& problem);
  void Moved() { moved_at_ = clock_.Now().time_since_epoch().count(); }

  // Constant after construction.
  kube::KubeClient& client_;
  const Clock& clock_;
  StoreWriter& store_;
  WatchListSupport& watch_list_;
  const ReflectorOptions options_;
  ReflectorObserver* const observer_;

  // Used only by the reflector's thread, or by a test that calls Step().
  State state_ = Empty{};
  int failures_ = 0;      // consecutive failures
  bool at_once_ = false;  // whether the next retry has no delay, as after a long watch
  int events_ = 0;        // number of events of the current watch
  std::minstd_rand random_{std::random_device{}()};

  std::atomic<bool> synced_{false};
  std::atomic<bool> running_{false};
  std::atomic<Clock::Time::rep> moved_at_{0};

  mutable Mutex mutex_;
  StoppableCondVar wake_;
  std::string problem_ RINGMASTER_GUARDED_BY(mutex_);
  // Stops the current watch.
  std::stop_source stream_ RINGMASTER_GUARDED_BY(mutex_){std::nostopstate};

  std::jthread thread_;
};

}  // namespace ringmaster::runtime
