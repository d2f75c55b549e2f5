#pragma once

// Where a job's checkpoints lie on its volume. The trainer writes there, and the agent removes
// there what nobody wants any more: both have it from here.

#include <string>

namespace ringmaster::control {

inline std::string OwnCheckpoints(const std::string& volume, const std::string& ns,
                                  const std::string& job, const std::string& job_uid) {
  return volume + "/" + ns + "/" + job + "/" + job_uid;
}

}  // namespace ringmaster::control
