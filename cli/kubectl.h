#pragma once

// Runs kubectl as a child process and returns its output, so every login that works with kubectl
// works here. The child gets an argument vector, never a shell command, and no standard input. Its
// standard error is passed on at once, because a login may ask for something there; kubectl's own
// error messages become the returned Error instead. Not thread-safe.

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "common/process/captured_process.h"
#include "common/process/process.h"

namespace ringmaster::cli {

using Arguments = std::vector<std::string>;

inline constexpr char kJobs[] = "trainingjobs.ringmaster.dev";

// The reasons of errors, beside those of the kind.
inline constexpr char kNoSuchType[] = "NoSuchType";  // the cluster does not have that CRD
inline constexpr char kNoKubectl[] = "NoKubectl";

class Kubectl {
 public:
  // `flags`: kubectl's own, such as --namespace=team-a; every call gets them. `program`: a name
  // that is looked up in PATH, or a path.
  explicit Kubectl(Arguments flags, std::string program = "kubectl");

  // Returns its standard output. Blocks until it exits. Error messages are kubectl's; kNotFound and
  // kForbidden come from the API server.
  Result<std::string> Run(const Arguments& arguments) const;
  // All at once; the results in the order of the calls.
  std::vector<Result<std::string>> RunAll(const std::vector<Arguments>& calls) const;

  // `kubectl get … -o json`.
  Result<nlohmann::json> Get(Arguments arguments) const;
  std::vector<Result<nlohmann::json>> GetAll(std::vector<Arguments> calls) const;
  // A TrainingJob, with an error that says what to do.
  Result<nlohmann::json> GetJob(const std::string& name) const;

  // The namespace that the flags name, or the context's; "default" where that has none.
  std::string Namespace() const;

  // For a child that the caller starts and reads itself.
  ProcessSpec Spec(const Arguments& arguments) const;

 private:
  const Arguments flags_;
  const std::string program_;
};

// Classifies a failure of kubectl by its standard error.
Error ErrorOfKubectl(std::string_view printed, ProcessEnd end);

// Which lines of kubectl's standard error are its errors, and no warning or question to the user.
bool IsErrorOfKubectl(std::string_view line);

}  // namespace ringmaster::cli
