#pragma once

// The path of a job's checkpoints on its volume. The trainer writes checkpoints there, and the
// agent removes them when the job is deleted.

#include <string>

namespace ringmaster::control {

inline std::string OwnCheckpoints(const std::string& volume, const std::string& ns,
                                  const std::string& job, const std::string& job_uid) {
  return volume + "/" + ns + "/" + job + "/" + job_uid;
}

}  // namespace ringmaster::control
