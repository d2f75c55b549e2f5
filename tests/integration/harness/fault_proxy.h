#pragma once

// A proxy between the operator and the real API server. It counts and records every request, and
// injects the faults that a test sets: a request that is cut before it arrives or before its
// answer, a delay, an answer of the proxy itself (409, 410, 429, 500, 503), or a watch that is cut,
// repeats its events or ends with 410.
//
// Each connection has a blocking thread. Both sides use HTTP/1.1 over TLS; credentials pass through
// unchanged. Hooks run on the threads of the connections and must not call the proxy's Stop().

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

  uint64_t number = 0;  // counts requests from 1, in order of arrival
  uint64_t write = 0;   // counts writes from 1, except those of Leases; 0 for other requests
  std::string method;
  std::string target;  // including its query
  std::string body;
  std::string authorization;
  Time received;
  Time answered;   // when the API server's answer was complete; until then, Time()
  int status = 0;  // HTTP status that the operator got; 0: no answer

  bool IsWrite() const { return method != "GET"; }
  bool IsWatch() const;
  bool IsLease() const { return target.find("/leases") != std::string::npos; }
  std::string Path() const { return target.substr(0, target.find('?')); }
};

// How the proxy handles one request.
struct Fault {
  enum class Kind { kPass, kCutBefore, kCutAfter, kAnswer };

  Kind kind = Kind::kPass;
  std::chrono::milliseconds delay{0};  // before anything else
  std::function<void()> at_cut;        // called just before the connection is cut
  int status = 0;                      // for kAnswer; the body is a metav1.Status
  std::string reason;                  // reason of the metav1.Status, for example "Conflict"
  int retry_after = 0;                 // seconds; 0: no Retry-After header
};

Fault Pass();
Fault Answer(int status, std::string reason, int retry_after = 0);
Fault CutBefore(std::function<void()> at_cut = nullptr);
Fault CutAfter(std::function<void()> at_cut = nullptr);

class FaultProxy {
 public:
  using Policy = std::function<Fault(const ProxiedRequest&)>;
  // Called with every event of a watch before it is passed on.
  using OnEvent = std::function<void(const ProxiedRequest& watch, const std::string& line)>;

  // `upstream` is the API server and its CA. The proxy presents `certificate` and `key` to the
  // operator.
  static Result<std::unique_ptr<FaultProxy>> Start(const Endpoint& upstream,
                                                   const std::string& certificate,
                                                   const std::string& key);
  ~FaultProxy();

  int port() const;

  void SetPolicy(Policy policy);  // applies to new requests; nullptr: all pass
  void SetOnEvent(OnEvent on_event);
  void SetRepeatEvents(bool repeat);                    // true: sends every watch event twice
  void SetEventDelay(std::chrono::milliseconds delay);  // applies to every watch event
  void CutWatches();                                    // cuts each watch in the middle of a line
  void ExpireWatches();  // each open watch gets an ERROR event of code 410 and ends

  std::vector<ProxiedRequest> Requests() const;
  std::vector<ProxiedRequest> Writes() const;  // all writes except those of Leases
  void Forget();                               // clears the record; the numbers continue

 private:
  class Impl;
  explicit FaultProxy(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster::testing
