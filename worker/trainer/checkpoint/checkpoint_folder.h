#pragma once

// The folder of a job's checkpoints, on a volume that all its workers share:
//
//   <term>.<epoch>-<step>/shard-0     the state after that step (shard_format.h)
//   <term>.<epoch>-<step>/part-k      rows of a state that is spread over ranks: of rank k of n
//   <term>.<epoch>-<step>/DONE        written last, once the launcher has agreed: it is complete
//   .writing-…, .removing-…           under way, or left behind by a process that died; a part is
//                                     a file .writing-…~part-k-of-n until all n are written
//
// Ordered by (term, epoch, step): the highest one with DONE is the newest. Who was cut off from the
// job gets no grant, so its checkpoints stay without DONE; and everybody removes only what is older
// than a DONE of its own. Functions on files; no threads, no policy of when.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
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
// kUnavailable: damaged, and how. Shards are 0, 1, … in this order.
Result<std::vector<DoneShard>> DecodeDone(std::string_view text);

// Rows of a table that is spread over ranks.
struct RowsWanted {
  int64_t all_rows = 0;
  int64_t row_values = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

class CheckpointFolder {
 public:
  // Makes the folder where it is missing. kInvalid when that cannot be, or nothing can be written
  // there: a sentence for the user.
  static Result<CheckpointFolder> Open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string PathOf(const StateVersion& version) const;

  // The complete ones, newest first. kUnavailable when the folder cannot be read.
  Result<std::vector<StateVersion>> Complete() const;

  // The newest complete checkpoint above `than` that is whole; nothing where there is none. Says in
  // the log which damaged one is passed over, why, and what is used instead; those in `damaged`,
  // with their reasons, are not read again, nor said again to who has a state. kInvalid: the newest
  // whole one belongs to another model, seed or global batch or has a newer format, or all that
  // exist are damaged and `than` is no state yet.
  Result<std::optional<LoadedShard>> LoadNewest(const StateVersion& than,
                                                const StateIdentity& identity,
                                                const std::vector<uint64_t>& parts,
                                                std::map<StateVersion, std::string>& damaged) const;

  // Writes the state aside and gives it its name, without DONE. kAlreadyExists: it is complete
  // already.
  Result<DoneShard> Write(const ShardHeader& header, const TrainableState& state,
                          const std::stop_token& stop = {}) const;

  // Writes one rank's rows aside. The header's shard and shards say which rank's of how many.
  Result<void> WritePart(const ShardHeader& header, std::span<float> rows,
                         const std::stop_token& stop = {}) const;
  // REQUIRES: Write() has succeeded, and all `count` ranks have written their parts. Moves them to
  // it.
  Result<std::vector<DoneShard>> AdoptParts(const StateVersion& version, int count) const;

  // Writes DONE: the state's shard, then the parts. The caller has the launcher's grant.
  Result<void> MarkDone(const StateVersion& version, const std::vector<DoneShard>& shards) const;

  // Reads rows [begin, end) of the parts of a complete checkpoint, whatever number of ranks wrote
  // them. kInvalid: they are not of `identity`, or damaged; names the file.
  Result<void> LoadRows(const StateVersion& version, const StateIdentity& identity,
                        const RowsWanted& wanted, std::span<float> rows) const;

  // REQUIRES: DONE of `own` is ours. Removes the complete ones beyond the newest `keep`, and what
  // is incomplete; of both only what is older than `own`.
  void Retain(const StateVersion& own, int keep) const;

 private:
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}

  Result<LoadedShard> Load(const StateVersion& version, const StateIdentity& identity,
                           const std::vector<uint64_t>& parts) const;
  // kUnavailable: it is damaged, and how.
  Result<std::vector<DoneShard>> ReadDone(const StateVersion& version) const;
  Result<void> CheckParts(const StateVersion& version, const StateIdentity& identity,
                          const std::vector<DoneShard>& done) const;
  std::string PartPath(const StateVersion& version, int32_t part) const;
  std::string PartAside(const StateVersion& version, int32_t part, int32_t parts) const;
  bool IsDone(const StateVersion& version) const;
  void Remove(const std::string& name) const;

  std::string path_;
};

}  // namespace ringmaster::trainer
