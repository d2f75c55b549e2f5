#pragma once

// The measured operations, their buffers and their bus factors, as nccl-tests defines them (its
// doc/PERFORMANCE.md). The size is that of the larger buffer of a rank; the algorithm bandwidth is
// size / time; the bus bandwidth is that times the bus factor, the least share that a link carries.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/trainer/comm/elements.h"

namespace ringmaster::bench {

enum class Collective {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kSendRecv  // to the next rank, from the one before
};

// all-reduce, reduce-scatter, …
const char* NameOf(Collective collective);

// Whether numbers are added up, multiplied, …
bool Reduces(Collective collective);

// Whether one rank is special: the source, or the only one with a result.
bool HasRoot(Collective collective);

// Whether an operation in place has a result: not where what is received overwrites what is still
// to be sent.
bool WorksInPlace(Collective collective);

// 2(n-1)/n, (n-1)/n or 1 of `ranks`.
double BusFactor(Collective collective, int ranks);

// How many elements the buffers of a rank have.
struct Counts {
  std::size_t send = 0;
  std::size_t receive = 0;
  std::size_t unit = 0;  // the operation's own: of a piece where there is one for each rank

  std::size_t most() const { return send > receive ? send : receive; }
};
// For buffers of at most `bytes`, pieces being whole multiples of 16; the counts are 0 where
// nothing fits.
Counts CountsOf(Collective collective, std::size_t bytes, std::size_t element_bytes, int ranks);

// One call of an operation. `send` and `receive` may overlap as in nccl-tests' in-place operations.
struct Call {
  Collective collective = Collective::kAllReduce;
  trainer::ReduceOp op = trainer::ReduceOp::kSum;
  int root = 0;  // if it has one
  trainer::Elements send{};
  trainer::Elements receive{};

  // The operation's own count, for `ranks`: of a piece where there is one for each.
  std::size_t count(int ranks) const;
};

// What a rank sends to and receives from each, in bytes, of an operation that only carries pieces:
// all-to-all, gather, scatter, sendrecv. They lie one after the other, in the order of the ranks.
struct Messages {
  std::vector<std::size_t> to{};
  std::vector<std::size_t> from{};
};
Messages MessagesOf(const Call& call, int rank, int ranks);

}  // namespace ringmaster::bench
