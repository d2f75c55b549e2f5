#pragma once

// Serves /metrics over HTTPS on a separate port: the certificate, the authorization of tokens, and
// the server. Used only by main.cc.

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "operator/app/options.h"
#include "operator/http/admin_server.h"
#include "operator/kube/kube_client.h"
#include "operator/runtime/token_access.h"

namespace ringmaster {

class MetricsPort {
 public:
  // Serves `text` until destroyed. `reviews` and `clock` must outlive it. Returns kInvalid with the
  // flag to change.
  static Result<std::unique_ptr<MetricsPort>> Start(const Config& config, kube::KubeClient& reviews,
                                                    const Clock& clock,
                                                    std::function<std::string()> text);
  ~MetricsPort();

 private:
  explicit MetricsPort(std::unique_ptr<runtime::TokenAccess> access);

  const std::unique_ptr<runtime::TokenAccess> access_;  // null: no token is required
  std::unique_ptr<http::AdminServer> server_;
};

}  // namespace ringmaster
