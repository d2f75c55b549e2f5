#pragma once

// The folder of a job's checkpoints on a volume that all its workers share:
//
//   <term>.<epoch>-<step>/shard-0     the state after that step (shard_format.h)
//   <term>.<epoch>-<step>/part-k      the rows of rank k, if part of the state is sharded
//   <term>.<epoch>-<step>/DONE        the list of these files; the checkpoint is complete
//   .writing-…, .removing-…           being written or removed, or left behind by a dead process
//                                     until rank 0 writes a newer version
//
// A checkpoint is written, with DONE, to a temporary folder and renamed after the launcher has
// granted it. A rename never replaces a folder with content: if two worlds write the same version,
// the first checkpoint stays.
//
// Checkpoints are ordered by (term, epoch, step); the highest checkpoint with DONE is the newest. A
// rank that is disconnected gets no grant, so its checkpoints are never renamed. A rank that has
// completed a checkpoint removes only older checkpoints.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/control/membership.h"
#include "worker/trainer/checkpoint/shard_file.h"

namespace ringmaster::trainer {

inline constexpr char kDoneFile[] = "DONE";
// A shard of each rank, and the shard of the replicated state.
inline constexpr std::size_t kMaxShards = std::size_t{control::kMaxRanks} + 1;
inline constexpr std::size_t kMaxDoneBytes = kMaxShards * 48;  // the longest line has 44 bytes

// Formats and parses "<term>.<epoch>-<step>". Parsing returns nothing for any other name.
std::string CheckpointName(const StateVersion& version);
std::optional<StateVersion> ParseCheckpointName(std::string_view name);

// One line of DONE: "<shard> <bytes> <checksum, 16 hex digits>".
struct DoneShard {
  int32_t shard = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // checksum of the shard's data

  friend bool operator==(const DoneShard&, const DoneShard&) = default;
};
std::string EncodeDone(const std::vector<DoneShard>& shards);
// Returns kInvalid with the reason kDamaged unless `text` lists the shards 0, 1, … in order.
Result<std::vector<DoneShard>> DecodeDone(std::string_view text);

// Rows [begin, end) of a table with `all_rows` rows that is sharded over ranks.
struct RowsWanted {
  int64_t all_rows = 0;
  int64_t row_values = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// A checkpoint that is being written.
struct CheckpointDraft {
  StateVersion version;
  std::string aside;              // its temporary folder
  std::vector<DoneShard> shards;  // the state's shard, then the parts
};

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}

  // Creates the folder if it is missing. kInvalid: the path can never be a folder. kUnavailable: it
  // cannot be created, read or written now. The message is for users.
  Result<void> Make() const;

  const std::string& path() const { return path_; }
  std::string PathOf(const StateVersion& version) const;

  // Returns the complete checkpoints, newest first. kUnavailable: the folder cannot be read now.
  Result<std::vector<StateVersion>> Complete() const;
  Result<bool> IsComplete(const StateVersion& version) const;
  // Returns when a checkpoint was completed, by the volume's clock; nothing if it is incomplete.
  Result<std::optional<std::chrono::system_clock::time_point>> CompletedAt(
      const StateVersion& version) const;
  // Returns the total bytes of the newest `keep` checkpoints in `complete`, a result of Complete().
  Result<int64_t> BytesOfNewest(const std::vector<StateVersion>& complete, int keep) const;

  // Loads the newest complete, undamaged checkpoint that is newer than `than`; nothing if none
  // exists. Logs each damaged checkpoint, with the reason and the checkpoint that is used instead.
  // Skips the checkpoints in `damaged` and adds newly found ones; logs known ones only if `than` is
  // empty. kUnavailable: the folder cannot be read now. kInvalid: the newest undamaged checkpoint
  // is of another model or a newer format, or all are damaged and `than` is empty.
  Result<std::optional<LoadedShard>> LoadNewest(const StateVersion& than,
                                                const StateIdentity& identity,
                                                const std::vector<uint64_t>& parts,
                                                std::map<StateVersion, std::string>& damaged) const;
  // Loads a complete checkpoint. Returns the errors of ReadShard().
  Result<LoadedShard> Load(const StateVersion& version, const StateIdentity& identity,
                           const std::vector<uint64_t>& parts) const;

  // Removes what killed writers of older versions left, which may take the space for this one, and
  // writes the state to a temporary folder. kAlreadyExists: this version is already complete. Adds
  // written bytes to `taken`, unless it is null (shard_file.h).
  Result<CheckpointDraft> Write(const ShardHeader& header, const TrainableState& state,
                                const std::stop_token& stop = {},
                                std::atomic<uint64_t>* taken = nullptr) const;

  // Writes one rank's rows in this world to a temporary file. The header's `shard` is the rank, and
  // its `shards` is the number of ranks. `taken`: as for Write().
  Result<void> WritePart(const control::Epoch& world, const ShardHeader& header,
                         std::span<float> rows, const std::stop_token& stop = {},
                         std::atomic<uint64_t>* taken = nullptr) const;
  // Moves all parts to the draft. REQUIRES: all `count` ranks of the world have written parts.
  Result<void> AdoptParts(CheckpointDraft& draft, const control::Epoch& world, int count) const;

  // Writes DONE and renames the draft's folder, which completes the checkpoint. kAlreadyExists:
  // this version is already complete, and is unchanged. kInvalid: it could not be read back, as it
  // has too many parts. REQUIRES: the launcher has granted it.
  Result<void> Publish(const CheckpointDraft& draft) const;
  // Removes a draft that will not be completed.
  void Discard(const CheckpointDraft& draft) const;

  // Reads rows [begin, end) from the parts of a complete checkpoint, which any number of ranks may
  // have written. kInvalid: a part does not match `identity` or is damaged; the message names the
  // file. kUnavailable: the parts cannot be read now.
  Result<void> LoadRows(const StateVersion& version, const StateIdentity& identity,
                        const RowsWanted& wanted, std::span<float> rows) const;

  // Removes complete checkpoints beyond the newest `keep`, and all incomplete ones, if they are
  // older than `own`. REQUIRES: `own` is complete and was written by this rank.
  void Retain(const StateVersion& own, int keep) const;

 private:
  Result<std::vector<DoneShard>> ReadDone(const StateVersion& version) const;
  Result<void> CheckParts(const StateVersion& version, const StateIdentity& identity,
                          const std::vector<DoneShard>& done) const;
  std::string PartPath(const StateVersion& version, int32_t part) const;
  std::string PartAside(const StateVersion& version, const control::Epoch& world, int32_t part,
                        int32_t parts) const;
  void RemoveLeftovers(const StateVersion& below) const;
  void Remove(const std::string& name) const;

  std::string path_;
};

}  // namespace ringmaster::trainer
