#pragma once

// The NCCL functions that the trainer calls, as a table that is filled at run time: the loaded
// library's version decides which functions exist, the build does not need NCCL, and tests can
// substitute a fake. Types have the layout of NCCL's public header (https://github.com/NVIDIA/nccl,
// src/nccl.h.in); layouts.tsv lists what each version declares.

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

// The fields that every version since 2.14 to 2.18 added; newer ones take what is missing from
// `size` and `version` as not given.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21800;
  int blocking = 0;  // ours never block
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;

  static constexpr int kUndefined = -2147483647 - 1;
};

// Since when a function may be used. Revoke came with 2.28.7, whose releases up to 2.28.8 NVIDIA's
// own resiliency tools advise against.
inline constexpr int kNcclShrinkSince = 22703;
inline constexpr int kNcclRevokeSince = 22809;
inline constexpr int kNcclGrowSince = 22902;
// Came with 2.19.1. 2.28.7 stopped leaks of registrations that had failed, which could crash, and
// 2.29.2 fixed the last crash that is known of registered memory (nccl issue 1859).
inline constexpr int kNcclRegisterSince = 22902;

struct NcclApi {
  int version = 0;  // 23007 is 2.30.7

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

  // Empty where this version has none that may be used.
  std::function<NcclResult(NcclComm, int* excluded, int count, NcclComm*, NcclConfig*, int mode)>
      comm_shrink;
  std::function<NcclResult(NcclComm, int flags)> comm_revoke;
  std::function<NcclResult(NcclComm, NcclUniqueId*)> comm_unique_id;
  std::function<NcclResult(NcclComm, int, const NcclUniqueId*, int, NcclComm*, NcclConfig*)>
      comm_grow;
  std::function<NcclResult(void**, std::size_t)> memory_alloc;
  // Only notes the memory: the first operation on it tells the other ranks.
  std::function<NcclResult(NcclComm, void*, std::size_t, void** handle)> comm_register;
};

// Loads the library that LibTorch uses, or the system's. kUnavailable: there is none, or it is
// older than 2.18. kInvalid: the user's settings make it block.
Result<NcclApi> LoadNccl();

// What NCCL will take a variable of its own to be: that of the environment, else of the file that
// NCCL_CONF_FILE names, or of ~/.nccl.conf where it names none, else of `site`; a file's first line
// for it counts (NCCL's src/misc/param.cc). Nothing: it is not set.
std::optional<std::string> NcclSetting(const std::string& name,
                                       const std::string& site = "/etc/nccl.conf");

// Whether a communicator is well, busy, or failed, and why.
NcclResult StateOf(const NcclApi& nccl, NcclComm comm);

// "2.30.7" of 23007.
std::string NcclVersionText(int version);

NcclType NcclTypeOf(ElementType type);
NcclOp NcclOpOf(ReduceOp op);

}  // namespace ringmaster::trainer
