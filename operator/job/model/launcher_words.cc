#include "operator/job/model/launcher_words.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/cut_text.h"
#include "operator/api/types.h"

namespace ringmaster::job {

namespace {

constexpr int64_t kWordsCount = int64_t{1} << 53;  // every JSON reader can represent it exactly
constexpr int64_t kWordsMillis = 1'000'000'000'000;
constexpr int kWordsRanks = 1 << 24;
constexpr int kWordsSignal = 127;
constexpr std::size_t kWordsNameBytes = 253;
constexpr std::size_t kWordsReasonBytes = 64;
constexpr std::size_t kWordsMessageBytes = 2048;
constexpr std::size_t kWordsLineBytes = 300;
constexpr std::size_t kWordsLines = 10;
constexpr std::size_t kWordsFaults = 16;

void Clamp(int64_t& value, int64_t most) { value = std::clamp<int64_t>(value, 0, most); }
void Clamp(int& value, int least, int most) { value = std::clamp(value, least, most); }
void Cut(std::string& text, std::size_t most_bytes) { text = CutText(std::move(text), most_bytes); }

// Clears a reason that is not a CamelCase word, because conditions require one.
void KeepWord(std::string& reason) {
  const auto letter_or_digit = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  const bool word = reason.size() <= kWordsReasonBytes &&
                    std::all_of(reason.begin(), reason.end(), letter_or_digit) &&
                    !(!reason.empty() && reason[0] >= '0' && reason[0] <= '9');
  if (!word) reason.clear();
}

template <typename T>
void KeepFirst(std::vector<T>& list, std::size_t most) {
  list.resize(std::min(list.size(), most));
}

template <typename T>
void KeepLast(std::vector<T>& list, std::size_t most) {
  const std::size_t kept = std::min(list.size(), most);
  list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(kept));
}

void Bound(control::Epoch& epoch) {
  Clamp(epoch.term, kWordsCount);
  Clamp(epoch.number, kWordsCount);
}

void Bound(control::Progress& progress) {
  Clamp(progress.step, kWordsCount);
  Clamp(progress.total_steps, kWordsCount);
}

void Bound(std::optional<control::Beginning>& beginning) {
  if (!beginning) return;
  Clamp(beginning->step, kWordsCount);
  Cut(beginning->message, kWordsMessageBytes);
}

void Bound(control::RankExit& exit) {
  Clamp(exit.rank, -1, kWordsRanks);
  Clamp(exit.exit_code, -1, 255);
  Clamp(exit.signal, 0, kWordsSignal);
  for (std::string* name : {&exit.pod_uid, &exit.pod, &exit.node, &exit.start}) {
    Cut(*name, kWordsNameBytes);
  }
  KeepLast(exit.last_lines, kWordsLines);
  for (std::string& line : exit.last_lines) Cut(line, kWordsLineBytes);
  Cut(exit.stack, control::kMaxStackBytes);
  if (exit.out_of_memory) {
    Clamp(exit.out_of_memory->limit_bytes, kWordsCount);
    Clamp(exit.out_of_memory->peak_bytes, kWordsCount);
  }
}

void Bound(control::Recovery& recovery) {
  Bound(recovery.epoch);
  KeepWord(recovery.cause);
  for (std::string* name : {&recovery.pod, &recovery.node}) Cut(*name, kWordsNameBytes);
  Clamp(recovery.detected_millis, kWordsMillis);
  Clamp(recovery.resumed_millis, kWordsMillis);
  Clamp(recovery.ran_millis, kWordsMillis);
  Clamp(recovery.steps_lost, kWordsCount);
}

void Bound(control::CheckpointReport& checkpoint) {
  Bound(checkpoint.epoch);
  Clamp(checkpoint.step, kWordsCount);
  Clamp(checkpoint.age_millis, kWordsMillis);
  Clamp(checkpoint.bytes, kWordsCount);
}

void Bound(control::Straggler& straggler) {
  for (std::string* name : {&straggler.pod_uid, &straggler.pod, &straggler.node}) {
    Cut(*name, kWordsNameBytes);
  }
  Clamp(straggler.rank, 0, kWordsRanks);
  Clamp(straggler.for_seconds, kWordsMillis / 1000);
}

void Bound(control::WorkerReport& worker) {
  Cut(worker.pod_uid, kWordsNameBytes);
  KeepFirst(worker.faults, kWordsFaults);
  for (control::PreflightFault& fault : worker.faults) {
    Cut(fault.check, kWordsNameBytes);
    Cut(fault.message, kWordsMessageBytes);
  }
}

}  // namespace

void Bound(control::LauncherStatus& status) {
  Clamp(status.term, kWordsCount);
  Bound(status.epoch);
  Clamp(status.ordered, 0, kWordsRanks);
  Clamp(status.world_size, 0, kWordsRanks);
  Cut(status.started_by, kWordsNameBytes);
  Cut(status.launch_agent, kWordsNameBytes);
  Clamp(status.crashes, 0, kWordsRanks);
  for (control::WorkerReport& worker : status.workers) Bound(worker);
  if (status.progress) Bound(*status.progress);
  if (status.last_recovery) Bound(*status.last_recovery);
  Bound(status.beginning);
  KeepWord(status.pause_reason);
  if (status.checkpoint) Bound(*status.checkpoint);
  KeepFirst(status.unprotected, kWordsFaults);
  for (control::ProtectionFault& fault : status.unprotected) {
    Cut(fault.what, kWordsNameBytes);
    Cut(fault.pod, kWordsNameBytes);
    Cut(fault.message, kWordsMessageBytes);
  }
  KeepLast(status.failures, api::kMaxFailures);
  for (control::RankExit& exit : status.failures) Bound(exit);
  Cut(status.message, kWordsMessageBytes);
  KeepFirst(status.stragglers, control::kMaxStragglers);
  for (control::Straggler& straggler : status.stragglers) Bound(straggler);
}

void Bound(control::Verdict& verdict) {
  KeepWord(verdict.reason);
  Cut(verdict.message, kWordsMessageBytes);
  Bound(verdict.epoch);
  Clamp(verdict.world_size, 0, kWordsRanks);
  Clamp(verdict.clean_exits, 0, kWordsRanks);
  if (verdict.progress) Bound(*verdict.progress);
  if (verdict.checkpoint) Bound(*verdict.checkpoint);
  Bound(verdict.beginning);
  if (verdict.first_failure) Bound(*verdict.first_failure);
}

}  // namespace ringmaster::job
