#pragma once

// A shared memory page in which a rank reports its position at the cost of a few stores. The agent
// creates a page for each start of a rank (RINGMASTER_POSITION_PAGE names it), the rank maps it,
// and the agent reads it periodically. The memory after the page contains the stacks of the rank's
// threads, which the agent requests with a signal (worker/trainer/telemetry/stack_signal.h).
//
//   0 … 127     words: the position and its checksum
//   128 … 255   separate words: the peer, the stacks, the progress of connecting, collectives, the
//               thread whose end the kernel marks (kOwnerWord)
//   4096 …      text of the stacks
//
// The agent does not trust the content: it ignores a page whose checksum does not match. If the
// page is read while the rank writes to it, the checksum does not match either, so no lock or
// memory ordering is needed. Times are CLOCK_MONOTONIC, which both sides share.

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/control/membership.h"

namespace ringmaster::control {

// The position that the rank reports.
struct PagePosition {
  Epoch epoch;  // the rank's current or last world
  int64_t step = 0;
  int bucket = 0;
  RankPhase phase = RankPhase::kWait;
  int64_t moved_nanos = 0;    // when the rank reached this position
  int64_t applied_nanos = 0;  // when the rank applied its newest step in this world; 0: none yet
  int64_t step_micros = 0;    // duration of its newest step, in any world
  int64_t own_micros = 0;     // step_micros without the time spent waiting for other ranks

  friend bool operator==(const PagePosition&, const PagePosition&) = default;
};

inline constexpr std::size_t kPositionWords = 16;

// Lock-free, so that the page works between processes and in a signal handler.
struct PositionPage {
  std::array<std::atomic<uint64_t>, kPositionWords> position;
  std::atomic<int64_t> peer;           // the peer for which the rank waits, plus 1; 0: unknown
  std::atomic<int64_t> stack_of;       // thread id of the thread whose stack was written last
  std::atomic<int64_t> connect_stage;  // the ConnectStage of the world that the rank enters
  std::array<std::atomic<int64_t>, 2> collectives;  // the counts, encoded by EncodeCounts()
  std::atomic<uint32_t> owner;                      // see kOwnerWord
  uint32_t unused;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

inline constexpr std::size_t kStackTextAt = 4096;
inline constexpr std::size_t kStackTextBytes = 64 << 10;
inline constexpr std::size_t kPositionFileBytes = kStackTextAt + kStackTextBytes;
inline constexpr std::size_t kPeerWord = kPositionWords;
inline constexpr std::size_t kStackOfWord = kPositionWords + 1;
inline constexpr std::size_t kConnectStageWord = kPositionWords + 2;
inline constexpr std::size_t kCollectivesWord = kPositionWords + 3;
// The first half of this word is a robust futex (get_robust_list(2)) of an idle thread of the rank:
// its thread id and FUTEX_WAITERS. When the rank is killed, the kernel clears the id and wakes the
// waiters before it frees the rank's memory and its GPU. Zero: there is no such thread.
inline constexpr std::size_t kOwnerWord = kPositionWords + 5;
inline constexpr std::size_t kPageWords = kPositionWords + 6;
static_assert(sizeof(PositionPage) == kPageWords * sizeof(uint64_t));

// A thread that gets this signal writes its stack if the rank has installed the handler.
inline constexpr int kStackSignal = SIGUSR2;
// The initial value of kStackOfWord if the rank's handler, for example that of Python, writes the
// stacks of all threads as plain text and does not report when it is done.
inline constexpr int64_t kAllStacks = -1;

std::array<uint64_t, kPositionWords> EncodePosition(const PagePosition& position);

// Returns nullopt if no rank wrote the words or they were read during a write. Accepts any input.
std::optional<PagePosition> DecodePosition(std::span<const uint64_t, kPositionWords> words);

// Each of the two words can be decoded alone. Zero means that the rank does not count collectives.
std::array<int64_t, 2> EncodeCounts(const CollectiveCounts& counts);
// Accepts any input.
CollectiveCounts DecodeCounts(std::span<const uint64_t, 2> words);

// Reads the clock that the times in the page use.
int64_t MonotonicNanos();

}  // namespace ringmaster::control
