#pragma once

// Writes a state to a file and reads it back. Reading does not trust lengths in the file: it
// allocates memory for the reader's state, never for a size that a header contains.

#include <atomic>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "worker/trainer/checkpoint/shard_format.h"
#include "worker/trainer/numeric/checksum.h"

namespace ringmaster::trainer {

struct LoadedShard {
  ShardHeader header;
  uint64_t bytes = 0;  // size of the file
  std::vector<std::vector<float>> values;
};

// Returns the number of values in each part of a state.
std::vector<uint64_t> PartsOf(const TrainableState& state);

// Writes a new file with header and data, and waits until it is on disk. Returns its size. Errors
// name the operation and the cause; a partial file may remain. kCancelled: `stop` was requested.
// Adds written bytes to `taken`, unless it is null. The file is synced at intervals, so that this
// number rises only while the volume takes data.
Result<uint64_t> WriteShard(const std::string& path, const ShardHeader& header,
                            const TrainableState& state, const std::stop_token& stop = {},
                            std::atomic<uint64_t>* taken = nullptr);

// Reads only the header. Returns the same errors as ReadShard().
Result<ShardHeader> ReadShardHeader(const std::string& path);

// Reads the file. `parts` and `shards` must be those of the reader's state. kNotFound: the file
// does not exist. kInvalid with the reason kDamaged: its content is wrong; other kInvalid: it
// belongs to another model or has a newer format. kUnavailable: the file cannot be read now, but
// its content may be correct. Errors name the file.
Result<LoadedShard> ReadShard(const std::string& path, const StateIdentity& identity,
                              const std::vector<uint64_t>& parts, int32_t shards = 1);

// Writes a small text to a new file, and waits until the file is on disk.
Result<void> WriteTextDurably(const std::string& path, const std::string& text);
// Reads at most `limit` + 1 bytes of a file. Returns the same errors as ReadShard().
Result<std::string> ReadText(const std::string& path, std::size_t limit);
// Returns a file's size in bytes; empty if it does not exist. kUnavailable: the size is unknown.
Result<std::optional<uint64_t>> FileBytes(const std::string& path);

// Waits until created, renamed and removed names in a folder are on disk.
Result<void> SyncFolder(const std::string& folder);

}  // namespace ringmaster::trainer
