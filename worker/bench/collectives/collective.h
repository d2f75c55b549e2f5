#pragma once

// The measured operations, their buffers and bus factors, as in nccl-tests (doc/PERFORMANCE.md).
// The size is that of a rank's larger buffer. The algorithm bandwidth is size / time. The bus
// bandwidth is the algorithm bandwidth times the bus factor, the minimum traffic per link and byte.

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
  kSendRecv  // sends to the next rank and receives from the previous one
};

// Returns the name, such as all-reduce.
const char* NameOf(Collective collective);

// Returns whether the operation reduces numbers.
bool Reduces(Collective collective);

// Whether the operation has a root: the rank that is the source, or the only rank with a result.
bool HasRoot(Collective collective);

// Returns whether the operation can run in place. It cannot if received data overwrites data that
// is still to be sent.
bool WorksInPlace(Collective collective);

// Returns the bus factor for n ranks: 2(n-1)/n, (n-1)/n or 1.
double BusFactor(Collective collective, int ranks);

// The number of elements in the buffers of a rank.
struct Counts {
  std::size_t send = 0;
  std::size_t receive = 0;
  std::size_t unit = 0;  // the operation's count argument: the size of a rank's piece, if any

  std::size_t most() const { return send > receive ? send : receive; }
};
// Returns the counts for buffers of at most `bytes`. Pieces are multiples of 16 bytes. The counts
// are 0 if not even one element fits.
Counts CountsOf(Collective collective, std::size_t bytes, std::size_t element_bytes, int ranks);

// One call of an operation. `send` and `receive` may overlap as in nccl-tests' in-place operations.
struct Call {
  Collective collective = Collective::kAllReduce;
  trainer::ReduceOp op = trainer::ReduceOp::kSum;
  int root = 0;  // the root's rank, if the operation has a root
  trainer::Elements send{};
  trainer::Elements receive{};

  // Returns the operation's count argument for `ranks` ranks: the size of a rank's piece, if any.
  std::size_t count(int ranks) const;
};

// The bytes that a rank sends to and receives from each rank, for operations that only move pieces:
// all-to-all, gather, scatter, sendrecv. The pieces are in rank order, without gaps.
struct Messages {
  std::vector<std::size_t> to{};
  std::vector<std::size_t> from{};
};
Messages MessagesOf(const Call& call, int rank, int ranks);

}  // namespace ringmaster::bench
