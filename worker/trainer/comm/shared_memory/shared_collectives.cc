#include "worker/trainer/comm/shared_memory/shared_collectives.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace ringmaster::trainer {
namespace {

// A slot fits into part of a core's cache. In worlds with many ranks, slots are smaller.
constexpr std::size_t kMostSlotBytes = 256 << 10;
constexpr std::size_t kLeastSlotBytes = 64 << 10;
constexpr std::size_t kAllSlotBytes = 16 << 20;

// Returns where piece `index` of `count` pieces of `bytes` begins and ends, in bytes.
std::pair<std::size_t, std::size_t> PieceOf(std::size_t bytes, std::size_t element, int index,
                                            int count) {
  const std::size_t elements = bytes / element;
  const auto cut = [&](int at) {
    return elements * static_cast<std::size_t>(at) / static_cast<std::size_t>(count) * element;
  };
  return {cut(index), cut(index + 1)};
}

}  // namespace

SharedLayout::SharedLayout(int ranks)
    : ranks_(static_cast<std::size_t>(ranks)),
      slot_bytes_(std::clamp(kAllSlotBytes / (2 * ranks_) / kLeastSlotBytes * kLeastSlotBytes,
                             kLeastSlotBytes, kMostSlotBytes)) {}

std::size_t SharedLayout::bytes() const { return ranks_ * (sizeof(MeetingCell) + 2 * slot_bytes_); }

std::span<MeetingCell> SharedLayout::Cells(std::span<std::byte> memory) const {
  return {reinterpret_cast<MeetingCell*>(memory.data()), ranks_};
}

std::byte* SharedLayout::Slot(std::span<std::byte> memory, int rank, int which) const {
  const std::size_t index = 2 * static_cast<std::size_t>(rank) + static_cast<std::size_t>(which);
  return memory.data() + ranks_ * sizeof(MeetingCell) + index * slot_bytes_;
}

SharedCollectives::SharedCollectives(std::span<std::byte> memory, int rank,
                                     std::vector<PeerProcess> processes)
    : layout_(static_cast<int>(processes.size())),
      memory_(memory),
      meeting_(layout_.Cells(memory), rank, std::move(processes)) {}

void SharedCollectives::OpenSlots(Deadline deadline) {
  meeting_.AwaitAll(left_at_[static_cast<std::size_t>(turn_)], deadline);
}

void SharedCollectives::LeaveSlots() {
  left_at_[static_cast<std::size_t>(turn_)] = meeting_.Arrive();
  turn_ = 1 - turn_;
}

void SharedCollectives::AllReduce(Elements values, ReduceOp op, Deadline deadline) {
  const ReduceFunction reduce = ReduceFunctionFor(values.type, op);
  const std::size_t element = SizeOf(values.type);
  const std::vector<ReductionPart> parts = ReductionParts(values.bytes(), element, size());
  const std::size_t most = layout_.slot_bytes();
  for (std::size_t at = 0; at < values.bytes(); at += most) {
    const std::size_t bytes = std::min(most, values.bytes() - at);
    const Elements chunk(values.data + at, bytes / element, values.type);
    OpenSlots(deadline);
    std::memcpy(Slot(rank()), chunk.data, bytes);
    if (size() == 2) {
      ReduceOfTwo(chunk, reduce, deadline);
    } else {
      ReduceOfMany(chunk, at, parts, reduce, deadline);
    }
    LeaveSlots();
  }
  meeting_.Settle();
}

// Each of two ranks reduces the whole chunk, in the order of the ranks.
void SharedCollectives::ReduceOfTwo(Elements chunk, ReduceFunction reduce, Deadline deadline) {
  const int other = 1 - rank();
  meeting_.Await(other, meeting_.Arrive(), deadline);
  const std::byte* const theirs = Slot(other);
  const std::byte* const first = rank() == 0 ? chunk.data : theirs;
  const std::byte* const second = rank() == 0 ? theirs : chunk.data;
  reduce(chunk.data, first, second, chunk.count);
}

// Each rank reduces one piece and writes the result over this piece in rank 0's slot, where no
// other rank reads it. `at` is the position of the chunk in the data.
void SharedCollectives::ReduceOfMany(Elements chunk, std::size_t at,
                                     const std::vector<ReductionPart>& parts, ReduceFunction reduce,
                                     Deadline deadline) {
  const std::size_t element = SizeOf(chunk.type);
  const auto [begin, end] = PieceOf(chunk.bytes(), element, rank(), size());
  meeting_.AwaitAll(meeting_.Arrive(), deadline);
  for (const ReductionPart& part : parts) {
    const std::size_t from = std::max(begin, part.begin - std::min(part.begin, at));
    const std::size_t to = std::min(end, part.end - std::min(part.end, at));
    if (from >= to) continue;
    std::byte* const result = chunk.data + from;
    std::memcpy(result, Slot(part.ranks.front()) + from, to - from);
    for (std::size_t i = 1; i < part.ranks.size(); ++i) {
      reduce(result, result, Slot(part.ranks[i]) + from, (to - from) / element);
    }
  }
  std::memcpy(Slot(0) + begin, chunk.data + begin, end - begin);
  meeting_.AwaitAll(meeting_.Arrive(), deadline);
  std::memcpy(chunk.data, Slot(0), chunk.bytes());
}

void SharedCollectives::ReduceScatter(Elements all, Elements mine, ReduceOp op, Deadline deadline) {
  const ReduceFunction reduce = ReduceFunctionFor(mine.type, op);
  const std::size_t element = SizeOf(mine.type);
  const auto ranks = static_cast<std::size_t>(size());
  const std::size_t most = layout_.slot_bytes() / ranks / element * element;
  for (std::size_t at = 0; at < mine.bytes(); at += most) {
    const std::size_t bytes = std::min(most, mine.bytes() - at);
    OpenSlots(deadline);
    for (std::size_t piece = 0; piece < ranks; ++piece) {
      std::memcpy(Slot(rank()) + piece * most, all.data + piece * mine.bytes() + at, bytes);
    }
    const uint64_t put = meeting_.Arrive();
    for (int from = 0; from < size(); ++from) {
      meeting_.Await(from, put, deadline);
      const std::byte* const theirs = Slot(from) + static_cast<std::size_t>(rank()) * most;
      std::byte* const result = mine.data + at;
      if (from == 0) {
        std::memcpy(result, theirs, bytes);
      } else {
        reduce(result, result, theirs, bytes / element);
      }
    }
    LeaveSlots();
  }
  meeting_.Settle();
}

void SharedCollectives::AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                                  Deadline deadline) {
  for (std::size_t at = 0; at < mine.size(); at += layout_.slot_bytes()) {
    const std::size_t bytes = std::min(layout_.slot_bytes(), mine.size() - at);
    OpenSlots(deadline);
    std::memcpy(Slot(rank()), mine.data() + at, bytes);
    const uint64_t put = meeting_.Arrive();
    for (int from = 0; from < size(); ++from) {
      meeting_.Await(from, put, deadline);
      std::memcpy(all.data() + static_cast<std::size_t>(from) * mine.size() + at, Slot(from),
                  bytes);
    }
    LeaveSlots();
  }
  meeting_.Settle();
}

// Returns how many bytes each rank sends to each other rank, by sender.
std::vector<uint64_t> SharedCollectives::GatherSizes(const std::vector<std::size_t>& mine,
                                                     Deadline deadline) {
  const std::vector<uint64_t> sent(mine.begin(), mine.end());
  std::vector<uint64_t> all(sent.size() * sent.size());
  AllGather(std::as_bytes(std::span(sent)), std::as_writable_bytes(std::span(all)), deadline);
  return all;
}

// Each rank sends its data through its slot, chunk by chunk; the other ranks copy their parts.
void SharedCollectives::AllToAll(std::span<const std::byte> send,
                                 const std::vector<std::size_t>& send_bytes,
                                 std::span<std::byte> receive,
                                 const std::vector<std::size_t>& receive_bytes, Deadline deadline) {
  const std::vector<uint64_t> sizes = GatherSizes(send_bytes, deadline);
  const auto ranks = static_cast<std::size_t>(size());
  struct Part {             // the data that one rank sends to this rank
    std::size_t begin = 0;  // offset in the data that it sends to all ranks
    std::size_t size = 0;
    std::byte* to = nullptr;
  };
  std::vector<Part> parts;
  std::size_t longest = 0;
  std::size_t received = 0;
  for (std::size_t from = 0; from < ranks; ++from) {
    const auto row = sizes.begin() + static_cast<std::ptrdiff_t>(from * ranks);
    const auto sum = [&](std::ptrdiff_t columns) {
      std::size_t total = 0;
      for (auto it = row; it != row + columns; ++it) total += *it;
      return total;
    };
    parts.push_back({.begin = sum(rank()), .size = row[rank()], .to = receive.data() + received});
    if (parts.back().size != receive_bytes[from]) {
      throw std::runtime_error("rank " + std::to_string(from) + " sends " +
                               std::to_string(parts.back().size) + " bytes where " +
                               std::to_string(receive_bytes[from]) + " are expected");
    }
    received += parts.back().size;
    longest = std::max(longest, sum(size()));
  }
  for (std::size_t at = 0; at < longest; at += layout_.slot_bytes()) {
    OpenSlots(deadline);
    if (at < send.size()) {
      std::memcpy(Slot(rank()), send.data() + at, std::min(layout_.slot_bytes(), send.size() - at));
    }
    const uint64_t put = meeting_.Arrive();
    for (std::size_t from = 0; from < ranks; ++from) {
      meeting_.Await(static_cast<int>(from), put, deadline);
      const Part& part = parts[from];
      const std::size_t begin = std::max(at, part.begin);
      const std::size_t end = std::min(at + layout_.slot_bytes(), part.begin + part.size);
      if (begin >= end) continue;
      std::memcpy(part.to + (begin - part.begin), Slot(static_cast<int>(from)) + (begin - at),
                  end - begin);
    }
    LeaveSlots();
  }
  meeting_.Settle();
}

void SharedCollectives::Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) {
  for (std::size_t at = 0; at < bytes.size(); at += layout_.slot_bytes()) {
    const std::span<std::byte> chunk =
        bytes.subspan(at, std::min(layout_.slot_bytes(), bytes.size() - at));
    OpenSlots(deadline);
    if (rank() == root) std::memcpy(Slot(root), chunk.data(), chunk.size());
    meeting_.Await(root, meeting_.Arrive(), deadline);
    if (rank() != root) std::memcpy(chunk.data(), Slot(root), chunk.size());
    LeaveSlots();
  }
  meeting_.Settle();
}

void SharedCollectives::Barrier(Deadline deadline) {
  meeting_.AwaitAll(meeting_.Arrive(), deadline);
  meeting_.Settle();
}

}  // namespace ringmaster::trainer
