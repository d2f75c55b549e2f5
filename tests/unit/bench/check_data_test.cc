#include "worker/bench/collectives/check_data.h"

#include <algorithm>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace ringmaster::bench {
namespace {

using trainer::Elements;
using trainer::ElementType;
using trainer::ReduceOp;

constexpr std::size_t kCount = 12;

// Returns the result of an allreduce of `ranks` ranks, computed with the trainer's reduction.
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
      for (const int ranks : {1, 2, 3, 16, 40, 256}) {
        std::vector<std::byte> result = Reduced(type, op, ranks);
        EXPECT_EQ(CountWrong(CallOn(result, type, op, ranks)), 0)
            << NameOf(type) << " " << NameOf(op) << " of " << ranks;
      }
    }
  }
}

// Returns the data that rank `rank` of `ranks` sends.
std::vector<float> SentBy(int rank, int ranks, ReduceOp op, std::size_t count) {
  std::vector<float> sent(count);
  const Elements elements = std::span(sent);
  Fill({.call = {.op = op, .send = elements, .receive = elements}, .rank = rank, .ranks = ranks});
  return sent;
}

double EqualPart(std::span<const float> a, std::span<const float> b) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i] ? 1 : 0;
  return static_cast<double>(equal) / static_cast<double>(a.size());
}

TEST(CheckData, DiffersByRankAndPosition) {
  constexpr std::size_t kSent = 12'000;
  for (const int ranks : {8, 40}) {
    std::vector<std::vector<float>> sent;
    for (int rank = 0; rank < ranks; ++rank) {
      sent.push_back(SentBy(rank, ranks, ReduceOp::kSum, kSent));
    }
    for (std::size_t rank = 0; rank < sent.size(); ++rank) {
      for (std::size_t other = 0; other < rank; ++other) {
        EXPECT_LT(EqualPart(sent[rank], sent[other]), 0.25) << rank << " and " << other;
      }
      const std::span<const float> all(sent[rank]);
      for (const std::size_t shift : {1U, 9973U}) {
        EXPECT_LT(EqualPart(all.first(kSent - shift), all.subspan(shift)), 0.25) << "by " << shift;
      }
    }
  }
}

TEST(CheckData, FindsAPieceOfAnotherRank) {
  constexpr int kRanks = 8;
  std::vector<float> gathered;
  for (const int rank : {7, 1, 2, 3, 4, 5, 6, 0}) {  // the first and last ranks are swapped
    const std::vector<float> piece = SentBy(rank, kRanks, ReduceOp::kSum, kCount);
    gathered.insert(gathered.end(), piece.begin(), piece.end());
  }

  const int64_t wrong = CountWrong({.call = {.collective = Collective::kAllGather,
                                             .send = std::span(gathered).first(kCount),
                                             .receive = std::span(gathered)},
                                    .rank = 0,
                                    .ranks = kRanks});

  EXPECT_GT(wrong, kCount);
}

TEST(CheckData, CountsElementsThatWereNotReducedOrAreWrong) {
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
