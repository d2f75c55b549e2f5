#pragma once

// The paths of a job's checkpoints on its volume, <volume>/<namespace>/<name>/<uid>, and of other
// jobs' checkpoints, from which a job can start if its spec names them. Accesses files.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "worker/trainer/checkpoint/checkpoint_folder.h"

namespace ringmaster::trainer {

struct CheckpointPlace {
  std::string volume;  // empty: no checkpoints
  // Identify the job. Empty outside of a job; checkpoints are then directly on the volume.
  std::string ns{}, name{}, uid{};
  // The checkpoint to start from. At most one of these is set.
  std::string from_job{};   // the newest checkpoint of other jobs of this name
  std::string from_path{};  // a checkpoint, or a folder of checkpoints, below the volume

  std::string Own() const;
  bool Restores() const { return !from_job.empty() || !from_path.empty(); }
};

// A folder with complete checkpoints of another job.
struct OtherCheckpoints {
  CheckpointFolder folder;
  StateVersion newest;
  std::optional<StateVersion> chosen{};  // use only this version, if set
};

// Finds checkpoints of other jobs named `name` in the job's namespace. Returns the folder whose
// newest one was completed last; empty if there is none. kUnavailable: it cannot be found now.
Result<std::optional<OtherCheckpoints>> FindOfJob(const CheckpointPlace& place,
                                                  const std::string& name);

// Finds the checkpoint that the spec names to start from. kInvalid, with a message: it is missing
// or not below the volume. kUnavailable: as above.
Result<OtherCheckpoints> FindToBeginWith(const CheckpointPlace& place);

// Loads from `other`, like CheckpointFolder::LoadNewest. kInvalid also: `chosen` does not exist.
Result<LoadedShard> LoadOther(const OtherCheckpoints& other, const StateIdentity& identity,
                              const std::vector<uint64_t>& parts,
                              std::map<StateVersion, std::string>& damaged);

}  // namespace ringmaster::trainer
