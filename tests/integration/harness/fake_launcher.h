#pragma once

// Answers for a job's launcher Pod: PUT /v1/order and GET /v1/status over HTTPS at an address of
// the loopback network, with the key, certificate and token of the job's Secret, as the real
// launcher does (launcher_api.h). By itself it reports what a healthy launcher would: every ordered
// worker ready, then a running world of them, and members that are no longer ordered as drained.
// Tests change that.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/control/launcher_api.h"

namespace ringmaster::testing {

struct LauncherIdentity {
  std::string address;  // a loopback address on which kApiPort is free (FreeLoopbackAddress)
  std::string certificate_pem;
  std::string key_pem;
  std::string operator_token;
  int64_t term = 0;
};

class FakeLauncher {
 public:
  static Result<std::unique_ptr<FakeLauncher>> Start(const LauncherIdentity& identity);
  ~FakeLauncher();

  std::optional<control::Order> LastOrder() const;
  control::LauncherStatus Status() const;
  int Calls() const;
  int Unauthorized() const;  // calls without the right token: answered 401

  // What is said from the next call on, by either side, as another version says it; empty: as it
  // is.
  using AsAnotherVersion = std::function<std::string(const std::string& document)>;
  void SetVersions(AsAnotherVersion of_operator, AsAnotherVersion of_launcher);

  // Changes what is reported from the next call on.
  void Report(const std::function<void(control::LauncherStatus&)>& change);
  // Ends the server, as when the process died; what it saw can still be read.
  void Stop();
  // Off: orders are kept, but the status stays as Report left it.
  void SetObedient(bool obedient);
  // Off: members that are no longer ordered stay members, as if their step never ended. On again:
  // they are drained.
  void SetDrains(bool drains);

 private:
  class Impl;
  explicit FakeLauncher(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

// An address 127.x.y.z that nothing listens on at kApiPort, and that no earlier call returned.
std::string FreeLoopbackAddress();

}  // namespace ringmaster::testing
