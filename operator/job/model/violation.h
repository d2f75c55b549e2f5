#pragma once

// A field of a spec or a finished manifest that is not allowed. The policies that validate a job
// find violations before any object of it is created; the plan then fails the job with them.

#include <string>

namespace ringmaster::job {

struct Violation {
  std::string
      path;  // for example spec.worker.template.spec.containers[0].securityContext.privileged
  std::string message;  // what is wrong and what to do: the rest of the sentence that `path` begins
  bool by_policy = false;  // a profile could allow it

  std::string Text() const { return path + " " + message; }
};

}  // namespace ringmaster::job
