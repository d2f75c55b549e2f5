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
  // Identity of the job. Empty outside of a job: checkpoints are then directly on the volume.
  std::string ns{}, name{}, uid{};
  // The source of the checkpoint to start from. At most one of these is set.
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

// Looks for checkpoints of other jobs named `name` in the job's namespace. Returns the folder with
// the checkpoint completed last; empty if none. kUnavailable: a folder cannot be read now.
Result<std::optional<OtherCheckpoints>> FindOfJob(const CheckpointPlace& place,
                                                  const std::string& name);

// Returns the checkpoint that the spec names to start from. kInvalid, with a message: it is missing
// or not below the volume. kUnavailable: a folder cannot be read now.
Result<OtherCheckpoints> FindToBeginWith(const CheckpointPlace& place);

// Loads from `other`, like CheckpointFolder::LoadNewest. Also kInvalid if `chosen` is missing.
Result<LoadedShard> LoadOther(const OtherCheckpoints& other, const StateIdentity& identity,
                              const std::vector<uint64_t>& parts,
                              std::map<StateVersion, std::string>& damaged);

}  // namespace ringmaster::trainer
