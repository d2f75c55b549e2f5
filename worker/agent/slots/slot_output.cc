#include "worker/agent/slots/slot_output.h"

#include <algorithm>
#include <utility>

#include "common/base/count_text.h"
#include "common/base/log.h"

namespace ringmaster::agent {
namespace {

constexpr std::size_t kMaxChunkBytes = 16384;
constexpr std::size_t kMaxUnfinishedBytes = 16384;  // a longer line is passed on in parts

std::size_t Lines(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

SlotOutput::SlotOutput(int slot, std::string pod, SlotActions* actions)
    : slot_(slot), pod_(std::move(pod)), actions_(actions) {}

void SlotOutput::Add(bool is_stderr, std::string_view data) {
  if (data.empty()) return;
  actions_->PrintLocally(slot_, route_.rank, is_stderr, data);
  ended_ = false;
  in_line_[is_stderr ? 1 : 0] = data.back() != '\n';
  if (is_stderr) {
    Keep(true,
         route_.rank == 0 ? std::exchange(begun_, "") + std::string(data) : WithoutRoutine(data));
  } else {
    Keep(false, data);
  }
  Flow();
}

std::string SlotOutput::WithoutRoutine(std::string_view data) {
  begun_ += data;
  std::string kept;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = begun_.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string_view line = std::string_view(begun_).substr(begin, end - begin);
    if (!IsRoutine(line)) kept.append(line).append("\n");
  }
  begun_.erase(0, begin);
  if (begun_.size() > kMaxUnfinishedBytes) kept += std::exchange(begun_, "");
  return kept;
}

void SlotOutput::GoTo(const Route& route) {
  if (route_.way == Way::kLauncher && route.way != Way::kLauncher) {
    for (const bool is_stderr : {true, false}) {
      std::string rest = std::exchange(unfinished_[is_stderr ? 1 : 0], "");
      waiting_bytes_ += rest.size();
      if (!rest.empty()) waiting_.push_front({is_stderr, std::move(rest)});
    }
  }
  route_ = route;
  Flow();
}

void SlotOutput::EndLines() {
  ended_ = true;
  Keep(true, std::exchange(begun_, ""));
  for (const bool is_stderr : {false, true}) {
    bool& in_line = in_line_[is_stderr ? 1 : 0];
    if (in_line) actions_->PrintLocally(slot_, route_.rank, is_stderr, "\n");
    if (in_line && route_.way != Way::kAttach) Keep(is_stderr, "\n");
    in_line = false;
  }
  Flow();
}

void SlotOutput::Keep(bool is_stderr, std::string_view data) {
  if (data.empty()) return;
  waiting_bytes_ += data.size();
  if (!waiting_.empty() && waiting_.back().is_stderr == is_stderr &&
      waiting_.back().data.size() + data.size() <= kMaxChunkBytes) {
    waiting_.back().data += data;
  } else {
    waiting_.push_back({is_stderr, std::string(data)});
  }
}

void SlotOutput::Flow() {
  while (!waiting_.empty() && route_.way != Way::kWait) {
    // The exit, which is reported next, may end the job, so send the last output before it.
    const bool taken = ended_ ? actions_->LauncherListens() : actions_->LauncherTakesOutput();
    if (route_.way == Way::kLauncher && !taken) break;
    ReportDroppedLines();
    const Chunk chunk = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= chunk.data.size();
    Deliver(chunk);
  }
  Bound();
}

void SlotOutput::Bound() {
  while (waiting_bytes_ > kMaxWaitingBytes) {
    const Chunk& oldest = waiting_.front();
    dropped_lines_ += Lines(oldest.data);
    waiting_bytes_ -= oldest.data.size();
    waiting_.pop_front();
  }
}

void SlotOutput::ReportDroppedLines() {
  const std::size_t lines = std::exchange(dropped_lines_, 0);
  if (lines == 0) return;
  Deliver({true, "(" + CountText(static_cast<int64_t>(lines), "line") +
                     " omitted because the reader was too slow: the log of Pod " + pod_ +
                     " is complete)\n"});
}

void SlotOutput::Deliver(const Chunk& chunk) {
  switch (route_.way) {
    case Way::kWait:
    case Way::kLocal:
      return;
    case Way::kAttach:
      return actions_->SendToAttach(route_.attach,
                                    control::RankOutput{chunk.is_stderr, chunk.data});
    case Way::kLauncher:
      return DeliverLines(chunk);
  }
}

void SlotOutput::DeliverLines(const Chunk& chunk) {
  std::string text = std::exchange(unfinished_[chunk.is_stderr ? 1 : 0], "") + chunk.data;
  const std::size_t last_end = text.rfind('\n');
  const std::size_t whole = last_end == std::string::npos ? 0 : last_end + 1;
  std::string& rest = unfinished_[chunk.is_stderr ? 1 : 0];
  rest = text.substr(whole);
  text.resize(whole);
  if (rest.size() > kMaxUnfinishedBytes) text += std::exchange(rest, "") + '\n';
  if (text.empty()) return;
  actions_->SendToLauncher(
      control::SlotOutput{slot_, route_.rank, chunk.is_stderr, std::move(text)});
}

}  // namespace ringmaster::agent
