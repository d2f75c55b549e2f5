#pragma once

// Keeps a Store in sync with the API server's objects of one resource: lists, then watches, in one
// thread. It starts with a WatchList (the server streams the existing objects, then a marked
// bookmark) and falls back to paged lists if the server does not support that. It recovers from
// broken and silent streams, expired versions (410: it lists again and keeps serving the old
// content meanwhile), throttling and missing permissions, which Problem() reports. If a page is
// too long, it requests half as many objects. A single object that is too long is skipped and
// logged.
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
  // Once, on the reflector's thread, when the first list is in the store.
  std::function<void()> on_synced{};
  std::string ns{};  // empty: all namespaces
  std::string label_selector{};
  BackoffOptions backoff{.initial = std::chrono::milliseconds(800),
                         .limit = std::chrono::seconds(30),
                         .factor = 2.0,
                         .jitter = 1.0};
  std::chrono::milliseconds forbidden_limit{10'000};  // permissions may be granted at any time
  // After a server that could not be reached, said that it cannot serve, or let our version expire:
  // a request of each watch costs little, and until then the operator sees nothing.
  BackoffOptions blind_backoff{.initial = std::chrono::milliseconds(100),
                               .limit = std::chrono::seconds(2),
                               .factor = 2.0,
                               .jitter = 1.0};
  // A watch that had failed works again; on the reflector's thread.
  std::function<void()> on_recovered{};
  // A watch that lasted this long ends a row of failures, and the next is opened at once: a
  // connection that is cut every few seconds delays nothing, and there is at most one a second.
  std::chrono::milliseconds healthy_after{1'000};
  std::chrono::seconds shortest_watch{
      300};  // each watch asks for a random length between these two
  std::chrono::seconds longest_watch{600};
};

// Whether the server supports WatchList; set by the first reflector that is refused, used by all of
// them.
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
  // All references outlive the reflector; `client`'s idle limit must be longer than the server's
  // bookmark interval (one minute), so that silence means a dead peer.
  Reflector(kube::KubeClient& client, const Clock& clock, StoreWriter& store,
            WatchListSupport& watch_list, ReflectorOptions options,
            ReflectorObserver* observer = nullptr);
  ~Reflector();  // stops

  void Start();
  void Stop();  // ends a watch in progress at once

  // Ends the stream in progress and opens another from the last version seen: this one should have
  // brought news, or may be as dead as its peer. From any thread.
  void Reconnect();

  bool Synced() const { return synced_; }  // the first full list is in the store
  // Why it is not getting on, as a sentence for people; empty while all is well.
  std::string Problem() const;
  // Returns true while the thread runs and made progress within `limit`.
  bool Healthy(std::chrono::milliseconds limit) const;

  // One step of the state machine; returns how long to wait before the next. What the thread does
  // in a loop; for tests.
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
  // The page was longer than the client reads.
  std::chrono::milliseconds ShortenPage(const Paging& paging, std::stop_token stop);
  std::chrono::milliseconds StepWatching(const Watching& watching, std::stop_token stop);

  Result<void> RunWatch(const std::string& from_version, bool initial, const std::stop_token& stop);
  Result<void> HandleLine(std::string_view line, bool& initial);
  Result<void> HandleBookmark(const nlohmann::json& object, bool& initial);
  void HandleObject(const std::string& type, const nlohmann::json& object, bool initial);
  // An event that is too long to read; its object is no longer served.
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

  // The reflector's thread only (or the test that calls Step).
  State state_ = Empty{};
  int failures_ = 0;      // in a row
  bool at_once_ = false;  // the next try: the first after a watch that lasted
  int events_ = 0;        // of the watch in progress
  std::minstd_rand random_{std::random_device{}()};

  std::atomic<bool> synced_{false};
  std::atomic<bool> running_{false};
  std::atomic<Clock::Time::rep> moved_at_{0};

  mutable Mutex mutex_;
  StoppableCondVar wake_;
  std::string problem_ RINGMASTER_GUARDED_BY(mutex_);
  // For the watch in progress.
  std::stop_source stream_ RINGMASTER_GUARDED_BY(mutex_){std::nostopstate};

  std::jthread thread_;
};

}  // namespace ringmaster::runtime
