#pragma once

// The format of a file with a state: a header that describes the state, followed by its values.
// Used for checkpoints on disk and for snapshots in memory. Does not access files.
//
//   "RMSHARD\n" | format (4) | 0 (4) | header bytes (8) | header checksum (8) | fields … | 0 … |
//   data
//
// All numbers are little-endian. The header's size is a multiple of 64 bytes. Every format version
// has the same first 32 bytes, so that a newer format can be distinguished from a damaged file. The
// data contains the parts of the state (flat float memory: parameters, then the optimizer's state)
// one after the other. The data does not depend on the number of ranks.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "worker/trainer/elastic/state_version.h"

namespace ringmaster::trainer {

inline constexpr uint32_t kShardFormat = 1;
inline constexpr std::size_t kShardPrefixBytes = 32;
inline constexpr std::size_t kMaxShardHeaderBytes = 8 << 20;

// The reason of a kInvalid error if the content was read and is wrong.
inline constexpr char kDamaged[] = "Damaged";
Error Damaged(std::string what);
bool IsDamage(const Error& error);

// Identifies the training run of a state. A different model cannot load the state; all other
// differences are allowed and reported.
struct StateIdentity {
  std::string run;        // id of the run, the same on all ranks and in all worlds; may be empty
  std::string model;      // a line for each parameter (name, type and shape), and their layout
  std::string shaping{};  // one line for each setting of training: "--flag=value", "data=…"

  friend bool operator==(const StateIdentity&, const StateIdentity&) = default;
};

struct ShardHeader {
  StateIdentity identity;
  StateVersion version;
  int64_t term_base = 0;  // LocalState::term_base
  int32_t shard = 0;      // index; 0 if the state is the same on all ranks.
                          // Shard k of a table in n shards has the rows ShareOf(k, n, rows)
  int32_t shards = 1;
  std::vector<uint64_t> parts;  // number of values in each part
  uint64_t checksum = 0;        // checksum of the data: Checksum(TrainableState)

  friend bool operator==(const ShardHeader&, const ShardHeader&) = default;
};

// REQUIRES: the header fits into kMaxShardHeaderBytes.
std::vector<std::byte> EncodeShardHeader(const ShardHeader& header);

// Returns the length of the header that begins with `prefix`, which has kShardPrefixBytes bytes.
// kDamaged: `prefix` is not the start of a header.
Result<std::size_t> ShardHeaderBytes(std::span<const std::byte> prefix);

// `bytes` has ShardHeaderBytes() bytes. kInvalid: it is damaged, or the format is newer.
Result<ShardHeader> DecodeShardHeader(std::span<const std::byte> bytes);

// Returns the size of the data. kDamaged: the sizes of the parts overflow.
Result<uint64_t> ShardDataBytes(const ShardHeader& header);

// Returns why a rank of identity `want`, whose parts have `parts` values, cannot load a state with
// header `have`; empty if it can. Ignores the runs. `shards`: the required number of shards.
std::string WhyOther(const ShardHeader& have, const StateIdentity& want,
                     std::span<const uint64_t> parts, int32_t shards = 1);

// Returns the differences between two texts of training settings, for users; empty if none.
std::string WhatDiffers(std::string_view theirs, std::string_view ours);

}  // namespace ringmaster::trainer
