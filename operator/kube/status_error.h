#pragma once

// From the API server's refusal (HTTP status, metav1.Status body, headers) to an Error: which kind
// it is decides what reflectors and reconcilers do next. The table is in operator/README.md.

#include "common/base/result.h"
#include "operator/http/http_client.h"

namespace ringmaster::kube {

// Error::reason of a kForbidden that comes from a ResourceQuota: trying again later may help, other
// rights do not.
inline constexpr char kReasonQuotaExceeded[] = "QuotaExceeded";
// Error::reason of a kForbidden that is a missing right (RBAC): the message names verb and
// resource.
inline constexpr char kReasonMissingPermission[] = "MissingPermission";

// REQUIRES: !response.Success(). Never fails: a body that is not a Status is quoted, shortened.
Error ReadStatusError(const http::Response& response);

inline bool IsQuotaRefusal(const Error& error) {
  return error.kind == ErrorKind::kForbidden && error.reason == kReasonQuotaExceeded;
}

}  // namespace ringmaster::kube
