#include "operator/kube/kube_client.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "common/json/json.h"
#include "operator/http/line_splitter.h"
#include "operator/kube/json_access.h"
#include "operator/kube/status_error.h"
#include "operator/kube/token_source.h"
#include "operator/kube/warning_log.h"

namespace ringmaster::kube {
namespace {

constexpr std::size_t kMaxLineBytes = 8 << 20;  // the server stores objects of up to about 3 MB
constexpr char kJson[] = "application/json";
constexpr char kMetadataOnly[] = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
constexpr char kMergePatch[] = "application/merge-patch+json";
constexpr char kApplyPatch[] = "application/apply-patch+yaml";  // JSON is YAML

class Query {
 public:
  void Add(std::string_view name, std::string_view value) {
    text_ += text_.empty() ? '?' : '&';
    text_ += name;
    text_ += '=';
    text_ += http::UrlEncode(value);
  }
  void AddUnlessEmpty(std::string_view name, std::string_view value) {
    if (!value.empty()) Add(name, value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string Doing(std::string_view verb, const Resource& resource, std::string_view ns,
                  std::string_view name = {}) {
  std::string doing = std::string(verb) + " " + resource.FullName();
  if (!name.empty()) return doing + " " + ObjectKey(ns, name);
  return ns.empty() ? doing : doing + " in namespace " + std::string(ns);
}

std::string WriteQuery() {
  Query query;
  query.Add("fieldManager", kFieldManager);
  query.Add("fieldValidation", "Strict");
  return query.text();
}

}  // namespace

KubeClient::KubeClient(http::HttpClient& http, TokenSource* tokens)
    : http_(http), tokens_(tokens), warnings_(std::make_unique<WarningLog>()) {}
KubeClient::~KubeClient() = default;

Result<nlohmann::json> KubeClient::Get(const Resource& resource, std::string_view ns,
                                       std::string_view name) {
  return ExchangeJson({.path = ObjectPath(resource, ns, name)},
                      Doing("getting", resource, ns, name));
}

Result<ListPage> KubeClient::List(const Resource& resource, std::string_view ns,
                                  const ListOptions& options, std::stop_token stop) {
  Query query;
  query.AddUnlessEmpty("labelSelector", options.label_selector);
  query.AddUnlessEmpty("fieldSelector", options.field_selector);
  query.Add("limit", std::to_string(options.limit));
  query.AddUnlessEmpty("continue", options.continue_token);
  query.AddUnlessEmpty("resourceVersion", options.resource_version);
  const std::string doing = Doing("listing", resource, ns);
  http::Request request{.path = CollectionPath(resource, ns) + query.text()};
  if (options.metadata_only) request.headers["Accept"] = kMetadataOnly;
  Result<http::Response> answer =
      options.max_bytes == 0 ? Exchange(std::move(request), doing, stop)
                             : ExchangeBounded(std::move(request), doing, options.max_bytes, stop);
  if (!answer.ok()) return answer.error();
  Result<nlohmann::json> list = ParseServerJson(answer->body);
  if (!list.ok()) return list.error().WithContext(doing);

  ListPage page;
  page.resource_version = GetString(*list, {"metadata", "resourceVersion"});
  page.continue_token = GetString(*list, {"metadata", "continue"});
  if (const auto items = list->find("items"); items != list->end() && items->is_array()) {
    page.items = std::move(items->get_ref<nlohmann::json::array_t&>());
  }
  if (page.resource_version.empty()) {
    return Error{ErrorKind::kInvalid, "the list has no resourceVersion"}.WithContext(doing);
  }
  return page;
}

Result<void> KubeClient::Watch(const Resource& resource, std::string_view ns,
                               const WatchOptions& options,
                               const std::function<bool(std::string_view)>& on_line,
                               std::stop_token stop) {
  Query query;
  query.Add("watch", "true");
  query.Add("allowWatchBookmarks", "true");
  query.AddUnlessEmpty("labelSelector", options.label_selector);
  query.AddUnlessEmpty("fieldSelector", options.field_selector);
  query.AddUnlessEmpty("resourceVersion", options.resource_version);
  if (options.send_initial_events) {
    query.Add("sendInitialEvents", "true");
    query.Add("resourceVersionMatch", "NotOlderThan");
  }
  query.Add("timeoutSeconds", std::to_string(options.timeout.count()));
  const std::string doing = Doing("watching", resource, ns);
  http::Request request{.path = CollectionPath(resource, ns) + query.text()};

  http::LineSplitter splitter(kMaxLineBytes, options.on_long_line);
  const auto on_bytes = [&](std::string_view bytes) {
    if (bytes.empty() && options.on_open) options.on_open();
    return splitter.Append(bytes, on_line);
  };
  const auto stream = [&] { return http_.Stream(request, on_bytes, stop); };

  Result<http::Response> answer = Authorized(request, stream);
  if (!answer.ok()) return answer.error().WithContext(doing);
  if (!answer->Success()) return ReadStatusError(*answer).WithContext(doing);
  return {};
}

Result<nlohmann::json> KubeClient::Create(const Resource& resource, std::string_view ns,
                                          const nlohmann::json& object) {
  return ExchangeJson({.method = http::Method::kPost,
                       .path = CollectionPath(resource, ns) + WriteQuery(),
                       .body = DumpJson(object),
                       .content_type = kJson},
                      Doing("creating", resource, ns, GetString(object, {"metadata", "name"})));
}

Result<void> KubeClient::TryCreate(const Resource& resource, std::string_view ns,
                                   const nlohmann::json& object) {
  const Result<nlohmann::json> tried =
      ExchangeJson({.method = http::Method::kPost,
                    .path = CollectionPath(resource, ns) + WriteQuery() + "&dryRun=All",
                    .body = DumpJson(object),
                    .content_type = kJson},
                   Doing("trying", resource, ns, GetString(object, {"metadata", "name"})));
  if (!tried.ok()) return tried.error();
  return {};
}

Result<nlohmann::json> KubeClient::ServerSideApply(const Resource& resource,
                                                   const nlohmann::json& object) {
  const std::string ns = GetString(object, {"metadata", "namespace"});
  const std::string name = GetString(object, {"metadata", "name"});
  return ExchangeJson({.method = http::Method::kPatch,
                       .path = ObjectPath(resource, ns, name) + WriteQuery() + "&force=true",
                       .body = DumpJson(object),
                       .content_type = kApplyPatch},
                      Doing("applying", resource, ns, name));
}

Result<nlohmann::json> KubeClient::Patch(const Resource& resource, std::string_view ns,
                                         std::string_view name, const nlohmann::json& merge_patch) {
  return SendMergePatch(resource, ns, name, {}, merge_patch);
}

Result<nlohmann::json> KubeClient::PatchStatus(const Resource& resource, std::string_view ns,
                                               std::string_view name,
                                               const nlohmann::json& merge_patch) {
  return SendMergePatch(resource, ns, name, "status", merge_patch);
}

Result<nlohmann::json> KubeClient::SendMergePatch(const Resource& resource, std::string_view ns,
                                                  std::string_view name,
                                                  std::string_view subresource,
                                                  const nlohmann::json& merge_patch) {
  const std::string verb =
      subresource.empty() ? "patching" : "patching the " + std::string(subresource) + " of";
  return ExchangeJson({.method = http::Method::kPatch,
                       .path = ObjectPath(resource, ns, name, subresource) + WriteQuery(),
                       .body = DumpJson(merge_patch),
                       .content_type = kMergePatch},
                      Doing(verb, resource, ns, name));
}

Result<nlohmann::json> KubeClient::Update(const Resource& resource, std::string_view ns,
                                          std::string_view name, const nlohmann::json& object) {
  return ExchangeJson({.method = http::Method::kPut,
                       .path = ObjectPath(resource, ns, name) + WriteQuery(),
                       .body = DumpJson(object),
                       .content_type = kJson},
                      Doing("updating", resource, ns, name));
}

Result<std::string> KubeClient::Delete(const Resource& resource, std::string_view ns,
                                       std::string_view name,
                                       const DeletePreconditions& preconditions,
                                       Propagation propagation) {
  const bool foreground = propagation == Propagation::kForeground;
  nlohmann::json options = {{"apiVersion", "v1"},
                            {"kind", "DeleteOptions"},
                            {"propagationPolicy", foreground ? "Foreground" : "Background"}};
  if (!preconditions.uid.empty()) options["preconditions"]["uid"] = preconditions.uid;
  if (!preconditions.resource_version.empty()) {
    options["preconditions"]["resourceVersion"] = preconditions.resource_version;
  }
  const Result<nlohmann::json> answer = ExchangeJson({.method = http::Method::kDelete,
                                                      .path = ObjectPath(resource, ns, name),
                                                      .body = DumpJson(options),
                                                      .content_type = kJson},
                                                     Doing("deleting", resource, ns, name));
  if (!answer.ok()) return answer.error();
  return GetString(*answer, {"metadata", "resourceVersion"});
}

Result<nlohmann::json> KubeClient::ExchangeJson(http::Request request, const std::string& doing) {
  Result<http::Response> answer = Exchange(std::move(request), doing, {});
  if (!answer.ok()) return answer.error();
  Result<nlohmann::json> json = ParseServerJson(answer->body);
  if (!json.ok()) return json.error().WithContext(doing);
  return json;
}

Result<http::Response> KubeClient::Exchange(http::Request request, const std::string& doing,
                                            std::stop_token stop) {
  request.deadline = deadline_;
  Result<http::Response> answer = Authorized(request, [&] { return http_.Send(request, stop); });
  if (!answer.ok()) return answer.error().WithContext(doing);
  if (!answer->Success()) return ReadStatusError(*answer).WithContext(doing);
  return answer;
}

Result<http::Response> KubeClient::ExchangeBounded(http::Request request, const std::string& doing,
                                                   std::size_t max_bytes, std::stop_token stop) {
  request.deadline = deadline_;
  std::string body;
  bool too_long = false;
  const auto on_bytes = [&](std::string_view bytes) {
    if (bytes.empty()) body.clear();  // a response starts
    too_long = body.size() + bytes.size() > max_bytes;
    if (!too_long) body += bytes;
    return !too_long;
  };
  Result<http::Response> answer =
      Authorized(request, [&] { return http_.Stream(request, on_bytes, stop); });
  if (!answer.ok()) return answer.error().WithContext(doing);
  if (!answer->Success()) return ReadStatusError(*answer).WithContext(doing);
  if (too_long) {
    return Error{ErrorKind::kInvalid,
                 "the response is longer than " + std::to_string(max_bytes) + " bytes"}
        .WithContext(doing);
  }
  answer->body = std::move(body);
  return answer;
}

template <typename Perform>
Result<http::Response> KubeClient::Authorized(http::Request& request, const Perform& perform) {
  request.headers.emplace("Accept", kJson);
  std::string token = tokens_ == nullptr ? std::string() : tokens_->Token();
  if (!token.empty()) request.headers["Authorization"] = "Bearer " + token;
  Result<http::Response> answer = perform();
  if (tokens_ != nullptr && answer.ok() && answer->status == 401) {
    tokens_->Drop(token);
    token = tokens_->Token();
    request.headers["Authorization"] = "Bearer " + token;
    answer = perform();
  }
  if (!answer.ok() && answer.error().kind == ErrorKind::kTimeout) {
    Error unanswered = answer.error();
    unanswered.kind = ErrorKind::kUnavailable;  // kTimeout is an answer of the server
    return unanswered;
  }
  if (answer.ok()) {
    if (const auto warning = answer->headers.find("Warning"); warning != answer->headers.end()) {
      warnings_->Note(warning->second);
    }
  }
  return answer;
}

}  // namespace ringmaster::kube
