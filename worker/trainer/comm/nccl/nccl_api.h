#pragma once

// The NCCL functions that the trainer calls, as a table that is filled at run time. The version of
// the loaded library decides which functions exist, the build does not need NCCL, and tests can use
// a fake. Types have the layout of NCCL's public header (https://github.com/NVIDIA/nccl,
// src/nccl.h.in); layouts.tsv lists the declarations of each version.

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "worker/trainer/comm/elements.h"

namespace ringmaster::trainer {

using NcclComm = struct NcclCommOpaque*;
using NcclStream = void*;  // a cudaStream_t

enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum class NcclType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBFloat16 = 9,
};

enum class NcclOp : int { kSum = 0, kProduct = 1, kMax = 2, kMin = 3 };

enum class NcclShrinkMode : int { kDefault = 0, kAbort = 1 };

struct NcclUniqueId {
  std::array<char, 128> bytes{};
};

// The fields that existed in NCCL 2.14 to 2.18. Newer versions recognise from `size` and `version`
// that their additional fields are missing, and treat them as unset.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21800;
  int blocking = 0;  // calls never block
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;

  static constexpr int kUndefined = -2147483647 - 1;
};

// The first NCCL versions in which the trainer uses these functions. 2.28.7 added revoke, but
// NVIDIA's own resiliency tools advise against its versions up to 2.28.8.
inline constexpr int kNcclShrinkSince = 22703;
inline constexpr int kNcclRevokeSince = 22809;
inline constexpr int kNcclGrowSince = 22902;
// 2.19.1 added registration. 2.28.7 fixed leaks of failed registrations, which could cause crashes,
// and 2.29.2 fixed the last known crash with registered memory (NCCL issue 1859).
inline constexpr int kNcclRegisterSince = 22902;

struct NcclApi {
  int version = 0;  // version number, for example 23007 for 2.30.7

  std::function<const char*(NcclResult)> error_string;
  std::function<NcclResult(NcclUniqueId*)> get_unique_id;
  std::function<NcclResult(NcclComm*, int ranks, NcclUniqueId, int rank, NcclConfig*)> comm_init;
  std::function<NcclResult(NcclComm)> comm_abort;
  std::function<NcclResult(NcclComm, NcclResult*)> comm_async_error;

  std::function<NcclResult(const void*, void*, std::size_t, NcclType, NcclOp, NcclComm, NcclStream)>
      all_reduce;
  std::function<NcclResult(const void*, void*, std::size_t, NcclType, NcclOp, NcclComm, NcclStream)>
      reduce_scatter;
  std::function<NcclResult(const void*, void*, std::size_t, NcclType, NcclComm, NcclStream)>
      all_gather;
  std::function<NcclResult(const void*, void*, std::size_t, NcclType, int, NcclComm, NcclStream)>
      broadcast;
  std::function<NcclResult(const void*, void*, std::size_t, NcclType, NcclOp, int, NcclComm,
                           NcclStream)>
      reduce;
  std::function<NcclResult(const void*, std::size_t, NcclType, int, NcclComm, NcclStream)> send;
  std::function<NcclResult(void*, std::size_t, NcclType, int, NcclComm, NcclStream)> receive;
  std::function<NcclResult()> group_start;
  std::function<NcclResult()> group_end;

  // Empty if this version of NCCL lacks the function, or if it must not be used.
  std::function<NcclResult(NcclComm, int* excluded, int count, NcclComm*, NcclConfig*, int mode)>
      comm_shrink;
  std::function<NcclResult(NcclComm, int flags)> comm_revoke;
  std::function<NcclResult(NcclComm, NcclUniqueId*)> comm_unique_id;
  std::function<NcclResult(NcclComm, int, const NcclUniqueId*, int, NcclComm*, NcclConfig*)>
      comm_grow;
  std::function<NcclResult(void**, std::size_t)> memory_alloc;
  // Registers the memory on this rank only; the first operation on the memory informs the others.
  std::function<NcclResult(NcclComm, void*, std::size_t, void** handle)> comm_register;
};

// Loads the library that LibTorch uses, or the system's. kUnavailable: NCCL is missing or older
// than 2.18. kInvalid: the user's settings make NCCL calls block.
Result<NcclApi> LoadNccl();

// Returns the value that NCCL will use for its variable `name`; nothing if it is not set. Looks in
// the environment, then in the file that NCCL_CONF_FILE names (by default ~/.nccl.conf), then in
// `site`. The first matching line of a file applies (NCCL's src/misc/param.cc).
std::optional<std::string> NcclSetting(const std::string& name,
                                       const std::string& site = "/etc/nccl.conf");

// Returns whether a communicator is usable, busy or failed, with the reason of a failure.
NcclResult StateOf(const NcclApi& nccl, NcclComm comm);

// Formats a version: "2.30.7" for 23007.
std::string NcclVersionText(int version);

NcclType NcclTypeOf(ElementType type);
NcclOp NcclOpOf(ReduceOp op);

}  // namespace ringmaster::trainer
