#pragma once

// Converts a refusal of the API server (HTTP status, metav1.Status, headers) to an Error. Its kind
// decides how reflectors and reconcilers proceed. operator/README.md contains the table.

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
