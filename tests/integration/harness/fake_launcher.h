#pragma once

// Serves the API of a job's launcher Pod: PUT /v1/order and GET /v1/status over HTTPS on a loopback
// address, with the key, certificate and token of the job's Secret, like the real launcher
// (launcher_api.h). By default it reports what a healthy launcher would: every ordered worker
// ready, then a running world of them, and members that are no longer ordered as drained. Tests can
// change the reports.

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
  int Unauthorized() const;  // number of calls answered 401 because of a wrong token

  // Converts the messages of either side to another version, from the next call on. Empty: no
  // conversion.
  using AsAnotherVersion = std::function<std::string(const std::string& document)>;
  void SetVersions(AsAnotherVersion of_operator, AsAnotherVersion of_launcher);

  // Changes the reported status from the next call on.
  void Report(const std::function<void(control::LauncherStatus&)>& change);
  // Stops the server, as if the process died; tests can still read what it received.
  void Stop();
  // If off, orders are stored, but the status stays as Report() left it.
  void SetObedient(bool obedient);
  // If off, members that are no longer ordered stay members, as if their step never ended. Once on
  // again, the launcher reports them as drained.
  void SetDrains(bool drains);

 private:
  class Impl;
  explicit FakeLauncher(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

// Returns a loopback address on which kApiPort is free; each call returns another address.
std::string FreeLoopbackAddress();

}  // namespace ringmaster::testing
