#pragma once

// Runs kubectl as a child process and returns its output, so every login that works with kubectl
// works here. The child gets an argument vector, never a shell command, and no standard input.
// kubectl's error messages become the returned Error. The rest of its standard error is passed on
// at once, because a login may prompt the user there. Not thread-safe.

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

// Values of Error::reason where the kind alone is not specific enough.
inline constexpr char kNoSuchType[] = "NoSuchType";  // the cluster does not have the resource's CRD
inline constexpr char kNoKubectl[] = "NoKubectl";

class Kubectl {
 public:
  // `flags`, such as --namespace=team-a, are passed to kubectl in every call. `program` is a path,
  // or a name that is looked up in PATH.
  explicit Kubectl(Arguments flags, std::string program = "kubectl");

  // Blocks until kubectl exits and returns its standard output. Errors contain kubectl's message.
  // kForbidden comes from the API server, and so does kNotFound unless its reason is kNoKubectl.
  Result<std::string> Run(const Arguments& arguments) const;
  // Runs all calls in parallel. The results are in the order of the calls.
  std::vector<Result<std::string>> RunAll(const std::vector<Arguments>& calls) const;

  // Runs `kubectl get … -o json` and parses its output.
  Result<nlohmann::json> Get(Arguments arguments) const;
  std::vector<Result<nlohmann::json>> GetAll(std::vector<Arguments> calls) const;
  // Reads a TrainingJob. If the job does not exist, the error says what to do.
  Result<nlohmann::json> GetJob(const std::string& name) const;

  // Returns the namespace from the flags, else from the kubeconfig context, else "default".
  std::string Namespace() const;

  // Returns the command for a caller that starts kubectl and reads kubectl's output itself.
  ProcessSpec Spec(const Arguments& arguments) const;

 private:
  const Arguments flags_;
  const std::string program_;
};

// Returns the Error for a failure of kubectl, classified by kubectl's standard error.
Error ErrorOfKubectl(std::string_view printed, ProcessEnd end);

// Returns true if a line of kubectl's standard error is an error, not a warning or a question.
bool IsErrorOfKubectl(std::string_view line);

}  // namespace ringmaster::cli
