#include "worker/bench/collectives/check_data.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

namespace ringmaster::bench {
namespace {

using trainer::Elements;
using trainer::ElementType;
using trainer::ReduceOp;

constexpr std::size_t kCount = 12;

// What an allreduce of `ranks` would give, by the trainer's own reduction.
std::vector<std::byte> Reduced(ElementType type, ReduceOp op, int ranks) {
  std::vector<std::byte> result(kCount * SizeOf(type));
  std::vector<std::byte> next(result.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const Elements send((rank == 0 ? result : next).data(), kCount, type);
    Fill({.call = {.op = op, .send = send, .receive = send}, .rank = rank, .ranks = ranks});
    if (rank > 0) {
      ReduceFunctionFor(type, op)(result.data(), result.data(), next.data(), kCount);
    }
  }
  return result;
}

CheckedCall CallOn(std::vector<std::byte>& memory, ElementType type, ReduceOp op, int ranks) {
  const Elements elements(memory.data(), kCount, type);
  return {.call = {.op = op, .send = elements, .receive = elements}, .rank = 0, .ranks = ranks};
}

TEST(CheckData, TheReducedDataOfAllRanksIsRightForEveryTypeAndOperation) {
  for (const ElementType type : trainer::kElementTypes) {
    for (const ReduceOp op : trainer::kReduceOps) {
      for (const int ranks : {1, 2, 3, 16}) {
        std::vector<std::byte> result = Reduced(type, op, ranks);
        EXPECT_EQ(CountWrong(CallOn(result, type, op, ranks)), 0)
            << NameOf(type) << " " << NameOf(op) << " of " << ranks;
      }
    }
  }
}

TEST(CheckData, FindsWhatWasNeverReducedAndWhatIsWrong) {
  for (const ElementType type : trainer::kElementTypes) {
    std::vector<std::byte> result = Reduced(type, ReduceOp::kSum, 3);
    result[5 * SizeOf(type)] ^= std::byte{1};
    EXPECT_EQ(CountWrong(CallOn(result, type, ReduceOp::kSum, 3)), 1) << NameOf(type);

    std::vector<std::byte> send(result.size());
    std::vector<std::byte> untouched(result.size());
    CheckedCall call = CallOn(untouched, type, ReduceOp::kSum, 3);
    call.call.send.data = send.data();
    Fill(call);
    EXPECT_EQ(CountWrong(call), kCount) << NameOf(type);
  }
}

}  // namespace
}  // namespace ringmaster::bench
