#pragma once

// Typed verbs of the Kubernetes API over an HttpClient. Each call sends one request and maps errors
// to kinds. The client has no threads and retries only once, after a 401 with a new token; callers
// decide how to handle errors. Thread-safe.
//
// ReadStatusError() (status_error.h) maps the server's errors: kNotFound, kAlreadyExists,
// kConflict, kInvalid, kForbidden (reason QuotaExceeded for quotas), kExpired, kThrottled (with
// retry_after), kTimeout, kUnavailable. Without an answer, calls return HttpClient's errors, but
// never kTimeout. Messages name the verb and the object: "while creating pods team-a/x: ...".

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "operator/http/http_client.h"
#include "operator/kube/resource.h"

namespace ringmaster::kube {

class TokenSource;
class WarningLog;

struct ListOptions {
  std::string label_selector{};
  std::string field_selector{};
  int limit = 500;
  std::string continue_token{};    // the token of the previous page; empty: the first page
  std::string resource_version{};  // the version to list; empty: the newest, with a quorum read
  bool metadata_only = false;      // whether to return only the metadata of each object
  std::size_t max_bytes = 0;       // a longer page returns kInvalid; 0: the HTTP client's limit
};

struct ListPage {
  std::vector<nlohmann::json> items;
  std::string resource_version;
  std::string continue_token;  // empty on the last page
};

struct WatchOptions {
  std::string label_selector{};
  std::string field_selector{};
  std::string resource_version{};     // the version to watch from
  bool send_initial_events = false;   // WatchList: existing objects come first, then a bookmark
  std::chrono::seconds timeout{300};  // the server ends the watch after this time
  std::function<void()> on_open{};    // called once, when the server accepts the watch
  // Called with the beginning of an event that was skipped because it is longer than 8 MiB.
  std::function<void(std::string_view)> on_long_line{};
};

// Preconditions of a delete. Empty fields are not sent. On a mismatch, Delete() returns kConflict.
struct DeletePreconditions {
  std::string uid{};
  std::string resource_version{};
};

// Whether dependents are deleted after the deleted object (background) or before it (foreground).
enum class Propagation { kBackground, kForeground };

class KubeClient {
 public:
  // `http` and `tokens` must outlive the client; `tokens` may be null (client certificates).
  KubeClient(http::HttpClient& http, TokenSource* tokens);
  ~KubeClient();

  Result<nlohmann::json> Get(const Resource& resource, std::string_view ns, std::string_view name);
  Result<ListPage> List(const Resource& resource, std::string_view ns, const ListOptions& options,
                        std::stop_token stop = {});

  // Calls `on_line` on the caller's thread for each line of the watch, a JSON event without its
  // newline, until `on_line` returns false. Returns ok if the watch ends without an error.
  Result<void> Watch(const Resource& resource, std::string_view ns, const WatchOptions& options,
                     const std::function<bool(std::string_view)>& on_line, std::stop_token stop);

  // Sends a POST with fieldValidation=Strict, so an unknown field returns kInvalid and is never
  // dropped. Returns the stored object. The request may be sent twice (see HttpClient::Send), so on
  // kAlreadyExists the caller must check the owner of the stored object.
  Result<nlohmann::json> Create(const Resource& resource, std::string_view ns,
                                const nlohmann::json& object);

  // Sends a create as a dry run, which stores nothing. Returns ok if the create would succeed.
  Result<void> TryCreate(const Resource& resource, std::string_view ns,
                         const nlohmann::json& object);

  // Sends a server-side apply as field manager kFieldManager, with force. `object` must contain
  // only the fields that Ringmaster owns.
  Result<nlohmann::json> ServerSideApply(const Resource& resource, const nlohmann::json& object);

  // Sends a JSON merge patch. If the patch contains metadata.resourceVersion and it does not match,
  // the server returns kConflict.
  Result<nlohmann::json> Patch(const Resource& resource, std::string_view ns, std::string_view name,
                               const nlohmann::json& merge_patch);
  Result<nlohmann::json> PatchStatus(const Resource& resource, std::string_view ns,
                                     std::string_view name, const nlohmann::json& merge_patch);

  // Replaces a whole object with PUT. The metadata.resourceVersion makes this a compare-and-set.
  Result<nlohmann::json> Update(const Resource& resource, std::string_view ns,
                                std::string_view name, const nlohmann::json& object);

  // Deletes with the object's grace period. Returns the resourceVersion with the deletionTimestamp,
  // for the freshness gate; empty if the object is already deleted; kNotFound if there is none.
  Result<std::string> Delete(const Resource& resource, std::string_view ns, std::string_view name,
                             const DeletePreconditions& preconditions,
                             Propagation propagation = Propagation::kBackground);

  // Sets the deadline of all calls except Watch. The deadline includes connecting and waiting for a
  // slot. Call it before any request.
  void SetDeadline(std::chrono::milliseconds deadline) { deadline_ = deadline; }

 private:
  // Sends the request with the token, retries once with a new token after a 401, and logs warnings.
  template <typename Perform>
  Result<http::Response> Authorized(http::Request& request, const Perform& perform);
  Result<http::Response> Exchange(http::Request request, const std::string& doing,
                                  std::stop_token stop);
  // Like Exchange(), but returns an error if the response is longer than `max_bytes`.
  Result<http::Response> ExchangeBounded(http::Request request, const std::string& doing,
                                         std::size_t max_bytes, std::stop_token stop);
  Result<nlohmann::json> ExchangeJson(http::Request request, const std::string& doing);
  Result<nlohmann::json> SendMergePatch(const Resource& resource, std::string_view ns,
                                        std::string_view name, std::string_view subresource,
                                        const nlohmann::json& merge_patch);

  // Constant after construction.
  http::HttpClient& http_;
  TokenSource* const tokens_;
  std::chrono::milliseconds deadline_{30'000};

  // The log is thread-safe.
  const std::unique_ptr<WarningLog> warnings_;
};

inline constexpr char kFieldManager[] = "ringmaster-operator";

}  // namespace ringmaster::kube
