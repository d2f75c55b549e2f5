#pragma once

// Converts an error response of the API server (HTTP status, metav1.Status, headers) to an Error.
// Reflectors and reconcilers act on the error's kind. The table of kinds is in operator/README.md.

#include "common/base/result.h"
#include "operator/http/http_client.h"

namespace ringmaster::kube {

// Error::reason of a kForbidden from a ResourceQuota. A later retry may succeed, but additional
// permissions do not help.
inline constexpr char kReasonQuotaExceeded[] = "QuotaExceeded";

// Converts a response. REQUIRES: !response.Success(). Quotes part of a body that is not a Status.
Error ReadStatusError(const http::Response& response);

inline bool IsQuotaRefusal(const Error& error) {
  return error.kind == ErrorKind::kForbidden && error.reason == kReasonQuotaExceeded;
}

}  // namespace ringmaster::kube
