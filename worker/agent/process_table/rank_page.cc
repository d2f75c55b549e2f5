#include "worker/agent/process_table/rank_page.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace ringmaster::agent {
namespace {

using Words = std::array<std::uint64_t, control::kPageWords>;

// The number of attempts to read the page. A read fails if the rank writes at the same time.
constexpr int kTries = 3;
constexpr int kMaxRank = 1 << 24;

// Returns the milliseconds since `then`, a time that the rank wrote and that may be wrong.
std::int64_t MillisSince(std::int64_t then, std::int64_t now) {
  return then >= now ? 0 : (now - then) / 1'000'000;
}

control::ConnectStage StageIn(std::uint64_t word) {
  if (word >= control::kConnectStageTexts.size()) return control::ConnectStage::kBegin;
  return static_cast<control::ConnectStage>(word);
}

}  // namespace

Result<RankPage> RankPage::Make() {
  const int file = memfd_create("ringmaster-position", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) {
    return Error{ErrorKind::kUnavailable,
                 std::string("cannot create the position page of a rank: ") + std::strerror(errno)};
  }
  RankPage page(file);
  if (ftruncate(file, control::kPositionFileBytes) != 0 ||
      fcntl(file, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return Error{ErrorKind::kUnavailable,
                 std::string("cannot resize the position page of a rank: ") + std::strerror(errno)};
  }
  void* const memory = mmap(nullptr, sizeof(control::PositionPage), PROT_READ, MAP_SHARED, file, 0);
  if (memory != MAP_FAILED) page.mapped_ = static_cast<const control::PositionPage*>(memory);
  return page;
}

RankPage::~RankPage() {
  if (mapped_ != nullptr) {
    munmap(const_cast<control::PositionPage*>(mapped_), sizeof(control::PositionPage));
  }
  if (file_ >= 0) close(file_);
}

RankPage::RankPage(RankPage&& other) noexcept
    : file_(std::exchange(other.file_, -1)), mapped_(std::exchange(other.mapped_, nullptr)) {}

RankPage& RankPage::operator=(RankPage&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

std::string RankPage::Path() const {
  if (file_ < 0) return "";
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file_);
}

std::optional<RankPage::Reading> RankPage::Read() const {
  for (int i = 0; i < kTries; ++i) {
    Words words{};
    if (pread(file_, words.data(), sizeof words, 0) != static_cast<ssize_t>(sizeof words)) break;
    const auto position =
        control::DecodePosition(std::span(words).first<control::kPositionWords>());
    if (!position.has_value()) continue;
    const auto peer = static_cast<std::int64_t>(words[control::kPeerWord]) - 1;
    return Reading{.position = *position,
                   .peer = peer >= 0 && peer < kMaxRank ? static_cast<int>(peer) : -1,
                   .connect_stage = StageIn(words[control::kConnectStageWord]),
                   .collectives = control::DecodeCounts(
                       std::span(words).subspan<control::kCollectivesWord, 2>())};
  }
  return std::nullopt;
}

std::int64_t RankPage::NewestStack() const {
  std::int64_t word = 0;
  const off_t at = control::kStackOfWord * sizeof(std::uint64_t);
  const bool whole = pread(file_, &word, sizeof word, at) == static_cast<ssize_t>(sizeof word);
  return whole ? word : 0;
}

std::string RankPage::ReadStacks() const {
  std::string text(control::kStackTextBytes, '\0');
  const ssize_t got = pread(file_, text.data(), text.size(), control::kStackTextAt);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  text.resize(std::min(text.size(), text.find('\0')));  // bytes not yet written are zero
  for (char& c : text) {
    if (c != '\n' && (c < 0x20 || c > 0x7e)) c = '?';
  }
  return text;
}

const std::atomic<std::uint32_t>* RankPage::Owner() const {
  return mapped_ == nullptr ? nullptr : &mapped_->owner;
}

pid_t RankPage::OwnerThread() const {
  return mapped_ == nullptr ? 0 : static_cast<pid_t>(mapped_->owner.load() & FUTEX_TID_MASK);
}

control::RankPosition PositionOf(const RankStanding& standing, const RankPage::Reading& reading,
                                 std::int64_t now) {
  const control::PagePosition& said = reading.position;
  const bool connects = said.phase == control::RankPhase::kConnect;
  return {.rank = standing.rank,
          .slot = standing.slot,
          .entered = said.epoch == standing.epoch,
          .stopped = false,
          .step = said.step,
          .bucket = connects ? static_cast<int>(reading.connect_stage) : said.bucket,
          .phase = said.phase,
          .peer = reading.peer,
          .still_millis = MillisSince(said.moved_nanos, now),
          .step_micros = said.step_micros,
          .own_micros = said.own_micros,
          .applied_millis = said.applied_nanos == 0 ? -1 : MillisSince(said.applied_nanos, now),
          .collectives = reading.collectives};
}

}  // namespace ringmaster::agent
