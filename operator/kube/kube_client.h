#pragma once

// Typed verbs of the Kubernetes API over an HttpClient. Each call sends one request and maps errors
// to kinds. The client has no threads and retries only once, after a 401 with a new token; callers
// decide how to handle errors. Thread-safe.
//
// Errors of all calls: those of HttpClient, and the server's refusals as ReadStatusError()
// (status_error.h) maps them: kNotFound, kAlreadyExists, kConflict, kInvalid, kForbidden (reason
// QuotaExceeded for quotas), kExpired, kThrottled (with retry_after), kUnavailable. Messages name
// verb, resource and object: "while creating pods team-a/x: ...".

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
  std::string continue_token{};    // from the page before; empty: the first page
  std::string resource_version{};  // empty: the newest, through a quorum read
  bool metadata_only = false;      // of each object its metadata alone
  std::size_t max_bytes = 0;       // a longer page is kInvalid, unread; 0: the client's own limit
};

struct ListPage {
  std::vector<nlohmann::json> items;
  std::string resource_version;
  std::string continue_token;  // empty on the last page
};

struct WatchOptions {
  std::string label_selector{};
  std::string field_selector{};
  std::string resource_version{};     // watch from here
  bool send_initial_events = false;   // WatchList: existing objects first, then a marked bookmark
  std::chrono::seconds timeout{300};  // the server ends the watch after this
  std::function<void()> on_open{};    // once, when the server has accepted the watch
  // The beginning of an event that was longer than 8 MiB and was skipped.
  std::function<void(std::string_view)> on_long_line{};
};

// Preconditions of a delete; both are sent if not empty, and a mismatch is kConflict.
struct DeletePreconditions {
  std::string uid{};
  std::string resource_version{};
};

// What happens to the objects that the deleted one owns: they are deleted after it, or before.
enum class Propagation { kBackground, kForeground };

class KubeClient {
 public:
  // `http` and `tokens` outlive the client; `tokens` may be null (client certificates).
  KubeClient(http::HttpClient& http, TokenSource* tokens);
  ~KubeClient();

  Result<nlohmann::json> Get(const Resource& resource, std::string_view ns, std::string_view name);
  Result<ListPage> List(const Resource& resource, std::string_view ns, const ListOptions& options,
                        std::stop_token stop = {});

  // Each line of the watch, one JSON event without its newline, on the caller's thread; `on_line`
  // returns false to end. Returns ok at a clean end.
  Result<void> Watch(const Resource& resource, std::string_view ns, const WatchOptions& options,
                     const std::function<bool(std::string_view)>& on_line, std::stop_token stop);

  // POST with fieldValidation=Strict: an unknown field is kInvalid, never dropped. Returns the
  // object as stored. May have been sent twice (see HttpClient::Send): kAlreadyExists is for the
  // caller to judge by the stored object's owner.
  Result<nlohmann::json> Create(const Resource& resource, std::string_view ns,
                                const nlohmann::json& object);

  // The same as a dry run: nothing is stored, and ok says that it could have been.
  Result<void> TryCreate(const Resource& resource, std::string_view ns,
                         const nlohmann::json& object);

  // Server-side apply as field manager kFieldManager, forced: `object` holds what we own and
  // nothing else.
  Result<nlohmann::json> ServerSideApply(const Resource& resource, const nlohmann::json& object);

  // JSON merge patches. With metadata.resourceVersion in the patch the server refuses (kConflict)
  // unless it matches.
  Result<nlohmann::json> Patch(const Resource& resource, std::string_view ns, std::string_view name,
                               const nlohmann::json& merge_patch);
  Result<nlohmann::json> PatchStatus(const Resource& resource, std::string_view ns,
                                     std::string_view name, const nlohmann::json& merge_patch);

  // PUT of a whole object; its metadata.resourceVersion makes it a compare-and-set.
  Result<nlohmann::json> Update(const Resource& resource, std::string_view ns,
                                std::string_view name, const nlohmann::json& object);

  // kNotFound when it is gone already. Its grace period is its own. Returns the resourceVersion of
  // the object as marked for deletion, for the freshness gate; empty when it went at once.
  Result<std::string> Delete(const Resource& resource, std::string_view ns, std::string_view name,
                             const DeletePreconditions& preconditions,
                             Propagation propagation = Propagation::kBackground);

  // Every call but Watch and List gives up after this long, connection and queueing for a slot
  // included. Call before use.
  void SetDeadline(std::chrono::milliseconds deadline) { deadline_ = deadline; }

 private:
  // Performs the request with our token, once more with a fresh one after a 401, and logs warnings.
  template <typename Perform>
  Result<http::Response> Authorized(http::Request& request, const Perform& perform);
  Result<http::Response> Exchange(http::Request request, const std::string& doing,
                                  std::stop_token stop);
  // The same, for an answer that may be too long to hold in memory.
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

  // Self-synchronised.
  const std::unique_ptr<WarningLog> warnings_;
};

inline constexpr char kFieldManager[] = "ringmaster-operator";

}  // namespace ringmaster::kube
