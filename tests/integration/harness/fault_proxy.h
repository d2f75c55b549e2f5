#pragma once

// Stands between the operator and the real API server: counts and records every request, and breaks
// what a test asks it to break: a request cut before it arrives or after it was stored but before
// its answer, a delay, an answer of the proxy's own (409, 410, 429, 500, 503), a watch that is cut,
// repeats its events, or ends with 410.
//
// One thread per connection, blocking; HTTP/1.1 over TLS on both sides; credentials pass through
// untouched. Hooks run on those threads and must not call back into the proxy's Stop().

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "tests/integration/harness/api_client.h"

namespace ringmaster::testing {

struct ProxiedRequest {
  using Time = std::chrono::steady_clock::time_point;

  uint64_t number = 0;  // from 1, in order of arrival
  uint64_t write = 0;   // from 1 among writes that are not of a Lease; 0 for the others
  std::string method;
  std::string target;  // with its query
  std::string body;
  std::string authorization;
  Time received;
  Time answered;   // when the API server's answer was complete; the epoch while it is not
  int status = 0;  // of the answer that the operator got; 0: none

  bool IsWrite() const { return method != "GET"; }
  bool IsWatch() const;
  bool IsLease() const { return target.find("/leases") != std::string::npos; }
  std::string Path() const { return target.substr(0, target.find('?')); }
};

// What to do with one request.
struct Fault {
  enum class Kind { kPass, kCutBefore, kCutAfter, kAnswer };

  Kind kind = Kind::kPass;
  std::chrono::milliseconds delay{0};  // before anything else
  std::function<void()> at_cut;        // runs where the connection is about to be cut
  int status = 0;                      // of kAnswer; a metav1.Status goes with it
  std::string reason;                  // of that Status, for example "Conflict"
  int retry_after = 0;                 // seconds; 0: no such header
};

Fault Pass();
Fault Answer(int status, std::string reason, int retry_after = 0);
Fault CutBefore(std::function<void()> at_cut = nullptr);
Fault CutAfter(std::function<void()> at_cut = nullptr);

class FaultProxy {
 public:
  using Policy = std::function<Fault(const ProxiedRequest&)>;
  // Every event of a watch as it is handed on; called before it is sent.
  using OnEvent = std::function<void(const ProxiedRequest& watch, const std::string& line)>;

  // `upstream` names the API server and its CA; `certificate` and `key` are what the proxy shows to
  // the operator.
  static Result<std::unique_ptr<FaultProxy>> Start(const Endpoint& upstream,
                                                   const std::string& certificate,
                                                   const std::string& key);
  ~FaultProxy();

  int port() const;

  void SetPolicy(Policy policy);  // for requests from now on; nullptr: all pass
  void SetOnEvent(OnEvent on_event);
  void SetRepeatEvents(bool repeat);                    // every watch event is sent twice
  void SetEventDelay(std::chrono::milliseconds delay);  // of every watch event
  void CutWatches();                                    // in the middle of a line
  void ExpireWatches();  // each open watch gets an ERROR event of code 410 and ends

  std::vector<ProxiedRequest> Requests() const;
  std::vector<ProxiedRequest> Writes() const;  // those that are not of a Lease
  void Forget();                               // the record, not the numbers

 private:
  class Impl;
  explicit FaultProxy(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster::testing
