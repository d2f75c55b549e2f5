#pragma once

// /metrics over HTTPS on a port of its own, for those who may read it: its certificate, the
// judgement of tokens, the server. Used by main.cc alone.

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
  // Serves `text` until its end. `reviews` and `clock` outlive it. kInvalid with the flag to
  // change.
  static Result<std::unique_ptr<MetricsPort>> Start(const Config& config, kube::KubeClient& reviews,
                                                    const Clock& clock,
                                                    std::function<std::string()> text);
  ~MetricsPort();

 private:
  explicit MetricsPort(std::unique_ptr<runtime::TokenAccess> access);

  const std::unique_ptr<runtime::TokenAccess> access_;  // null: everybody may read
  std::unique_ptr<http::AdminServer> server_;
};

}  // namespace ringmaster
