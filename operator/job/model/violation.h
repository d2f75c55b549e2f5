#pragma once

// What a spec or a finished manifest has that it must not have. Found by the policies that judge a
// job before anything of it is made; told by the plan, which ends the job with it.

#include <string>

namespace ringmaster::job {

struct Violation {
  std::string
      path;  // for example spec.worker.template.spec.containers[0].securityContext.privileged
  std::string message;     // what is wrong and what to do
  bool by_policy = false;  // a profile could allow it

  std::string Text() const { return path + ": " + message; }
};

}  // namespace ringmaster::job
