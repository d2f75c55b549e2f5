#pragma once

// The folder of a job's checkpoints on a volume that all its workers share:
//
//   <term>.<epoch>-<step>/shard-0     the state after that step (shard_format.h)
//   <term>.<epoch>-<step>/part-k      rows of a state that is spread over ranks: of rank k of n
//   <term>.<epoch>-<step>/DONE        what belongs to it: it is complete
//   .writing-…, .removing-…           under way, or left behind by a process that died
//
// A checkpoint is written, with DONE, to a temporary folder and renamed after the launcher has
// agreed. A rename never replaces a folder with content: if two worlds write one version, the first
// stays.
//
// Checkpoints are ordered by (term, epoch, step); the highest one with DONE is the newest. A rank
// that is cut off gets no grant, so its checkpoints are never renamed; ranks remove only
// checkpoints that are older than a complete one of their own.

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
#include "worker/trainer/checkpoint/shard_file.h"

namespace ringmaster::trainer {

inline constexpr char kDoneFile[] = "DONE";
inline constexpr std::size_t kMaxDoneBytes = 64 << 10;

// "<term>.<epoch>-<step>", and back; nothing for any other name.
std::string CheckpointName(const StateVersion& version);
std::optional<StateVersion> ParseCheckpointName(std::string_view name);

// One line of DONE: "<shard> <bytes> <checksum, 16 hex digits>".
struct DoneShard {
  int32_t shard = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // of the shard's data

  friend bool operator==(const DoneShard&, const DoneShard&) = default;
};
std::string EncodeDone(const std::vector<DoneShard>& shards);
// kDamaged: how. Shards are 0, 1, … in this order.
Result<std::vector<DoneShard>> DecodeDone(std::string_view text);

// Rows of a table that is spread over ranks.
struct RowsWanted {
  int64_t all_rows = 0;
  int64_t row_values = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// A checkpoint on its way.
struct CheckpointDraft {
  StateVersion version;
  std::string aside;              // its folder until it is complete
  std::vector<DoneShard> shards;  // the state's, then those of the parts
};

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}

  // Makes the folder where it is missing. kInvalid when that can never be; kUnavailable when it
  // cannot be now, or may not be read and written: a sentence for the user.
  Result<void> Make() const;

  const std::string& path() const { return path_; }
  std::string PathOf(const StateVersion& version) const;

  // The complete ones, newest first. kUnavailable when that cannot be told.
  Result<std::vector<StateVersion>> Complete() const;
  Result<bool> IsComplete(const StateVersion& version) const;
  // When it was completed, by the volume's clock; nothing where it is not complete.
  Result<std::optional<std::chrono::system_clock::time_point>> CompletedAt(
      const StateVersion& version) const;
  // The bytes of the newest `keep` of those that Complete() returned.
  Result<int64_t> BytesOfNewest(const std::vector<StateVersion>& complete, int keep) const;

  // The newest complete checkpoint above `than` that is whole; nothing where there is none. Says in
  // the log which damaged one is passed over, why, and what is used instead; those in `damaged`,
  // with their reasons, are not read again, nor said again to who has a state. kUnavailable: what
  // is there cannot be read now. kInvalid: the newest whole one belongs to another model or has a
  // newer format, or all that exist are damaged and `than` is not a state yet.
  Result<std::optional<LoadedShard>> LoadNewest(const StateVersion& than,
                                                const StateIdentity& identity,
                                                const std::vector<uint64_t>& parts,
                                                std::map<StateVersion, std::string>& damaged) const;
  // A complete one. Errors as ReadShard's.
  Result<LoadedShard> Load(const StateVersion& version, const StateIdentity& identity,
                           const std::vector<uint64_t>& parts) const;

  // Writes the state aside. kAlreadyExists: this version is complete already.
  Result<CheckpointDraft> Write(const ShardHeader& header, const TrainableState& state,
                                const std::stop_token& stop = {}) const;

  // Writes one rank's rows aside, in this world. The header's shard and shards say which rank's of
  // how many.
  Result<void> WritePart(const control::Epoch& world, const ShardHeader& header,
                         std::span<float> rows, const std::stop_token& stop = {}) const;
  // REQUIRES: all `count` ranks of the world have written their parts. Moves them to the draft.
  Result<void> AdoptParts(CheckpointDraft& draft, const control::Epoch& world, int count) const;

  // Gives the draft its name: it is complete. The caller has the launcher's grant. kAlreadyExists:
  // this version is complete already, and stays as it is.
  Result<void> Publish(const CheckpointDraft& draft) const;
  // Removes one that will not be completed.
  void Discard(const CheckpointDraft& draft) const;

  // Reads rows [begin, end) of the parts of a complete checkpoint, whatever number of ranks wrote
  // them. kInvalid: they are not of `identity`, or damaged; names the file. kUnavailable: they
  // cannot be read now.
  Result<void> LoadRows(const StateVersion& version, const StateIdentity& identity,
                        const RowsWanted& wanted, std::span<float> rows) const;

  // REQUIRES: `own` is complete, and ours. Removes the complete ones beyond the newest `keep`, and
  // what is incomplete; of both only what is older than `own`.
  void Retain(const StateVersion& own, int keep) const;

 private:
  Result<std::vector<DoneShard>> ReadDone(const StateVersion& version) const;
  Result<void> CheckParts(const StateVersion& version, const StateIdentity& identity,
                          const std::vector<DoneShard>& done) const;
  std::string PartPath(const StateVersion& version, int32_t part) const;
  std::string PartAside(const StateVersion& version, const control::Epoch& world, int32_t part,
                        int32_t parts) const;
  void Remove(const std::string& name) const;

  std::string path_;
};

}  // namespace ringmaster::trainer
