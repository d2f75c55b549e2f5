#pragma once

// A field of a spec or a complete manifest that is not allowed. The admission policies find
// violations before the operator creates any object of the job; the job's status reports them.

#include <string>

namespace ringmaster::job {

struct Violation {
  std::string
      path;  // for example spec.worker.template.spec.containers[0].securityContext.privileged
  std::string message;  // the error and how to fix it; completes a sentence that starts with path
  bool by_policy = false;  // whether a profile can allow it

  std::string Text() const { return path + " " + message; }
};

}  // namespace ringmaster::job
