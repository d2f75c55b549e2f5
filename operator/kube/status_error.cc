#include "operator/kube/status_error.h"

#include <algorithm>
#include <charconv>
#include <string>

#include <nlohmann/json.hpp>

#include "common/base/cut_text.h"
#include "operator/kube/json_access.h"

namespace ringmaster::kube {
namespace {

ErrorKind KindOf(int status, const std::string& reason) {
  if (reason == "AlreadyExists") return ErrorKind::kAlreadyExists;
  if (reason == "Expired" || reason == "Gone") return ErrorKind::kExpired;
  switch (status) {
    case 400:
    case 405:
    case 413:
    case 415:
    case 422:
      return ErrorKind::kInvalid;
    case 401:
      return ErrorKind::kUnauthorized;
    case 403:
      return ErrorKind::kForbidden;
    case 404:
      return ErrorKind::kNotFound;
    case 408:
    case 504:
      return ErrorKind::kTimeout;
    case 409:
      return ErrorKind::kConflict;
    case 410:
      return ErrorKind::kExpired;
    case 429:
      return ErrorKind::kThrottled;
    default:
      return ErrorKind::kUnavailable;
  }
}

// Returns the time to wait before a retry. Supports whole seconds but not HTTP dates, which the API
// server does not send. A proxy may send any value, and an hour without a retry would be an outage
// of the operator, so the time is at most 30 seconds.
std::chrono::milliseconds RetryAfter(const http::Response& response, const nlohmann::json& body) {
  int64_t seconds = GetInt64(body, {"details", "retryAfterSeconds"}).value_or(0);
  if (const auto header = response.headers.find("Retry-After"); header != response.headers.end()) {
    const std::string& text = header->second;
    std::from_chars(text.data(), text.data() + text.size(), seconds);
  }
  constexpr int64_t kLongest = 30;
  return std::chrono::seconds(std::clamp<int64_t>(seconds, 0, kLongest));
}

constexpr std::size_t kMaxMessageBytes = 2048;

std::string Excerpt(const std::string& body) {
  constexpr std::size_t kLongest = 200;
  return body.size() <= kLongest ? body : body.substr(0, kLongest) + "...";
}

// The API server reports both exceeded quotas and missing permissions as 403 Forbidden.
std::string ForbiddenReason(const std::string& message) {
  return message.find("exceeded quota") == std::string::npos ? "" : kReasonQuotaExceeded;
}

// Returns true if the API server rejected an object because it does not know the kind of the
// object's owner yet: the admission plugin OwnerReferencesPermissionEnforcement learns of a new
// CustomResourceDefinition up to half a minute late.
bool OwnerIsNotKnownYet(const Error& error) {
  return error.kind == ErrorKind::kForbidden &&
         error.message.find("cannot find RESTMapping") != std::string::npos;
}

}  // namespace

Error ReadStatusError(const http::Response& response) {
  const nlohmann::json body = nlohmann::json::parse(response.body, nullptr, false);
  const bool is_status = body.is_object() && GetString(body, {"kind"}) == "Status";
  Error error;
  error.kind = KindOf(response.status, is_status ? GetString(body, {"reason"}) : std::string());
  error.message = is_status ? GetString(body, {"message"}) : Excerpt(response.body);
  if (error.message.empty()) error.message = "the server returned no details";
  // Cut the message, because it may repeat a request of up to a megabyte.
  error.message =
      CutText("HTTP " + std::to_string(response.status) + ": " + error.message, kMaxMessageBytes);
  if (OwnerIsNotKnownYet(error)) error.kind = ErrorKind::kThrottled;
  if (error.kind == ErrorKind::kForbidden) error.reason = ForbiddenReason(error.message);
  error.retry_after = RetryAfter(response, body);
  return error;
}

}  // namespace ringmaster::kube
