#include "common/control/verdict.h"

#include <algorithm>

#include "common/control/wire.h"
#include "common/json/fields.h"

namespace ringmaster::control {
void Describe(auto& a, Is<Verdict> auto& v) {
  a.Field("succeeded", v.succeeded);
  a.Optional("reason", v.reason);
  a.Optional("message", v.message);
  a.Optional("epoch", v.epoch);
  a.Optional("worldSize", v.world_size);
  a.Optional("progress", v.progress);
  a.Optional("checkpoint", v.checkpoint);
  a.Optional("beginning", v.beginning);
  a.Optional("firstFailure", v.first_failure);
  a.Optional("cleanExits", v.clean_exits);
}

namespace {

// Cuts text to at most `size` bytes, at a character boundary, and marks the cut.
void Shorten(std::string& text, std::size_t size) {
  if (text.size() <= size) return;
  constexpr std::string_view kMark = "...";
  if (size < kMark.size()) return text.clear();
  size -= kMark.size();
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) --size;
  text.resize(size);
  text += kMark;
}

}  // namespace

std::string EncodeVerdict(const Verdict& verdict) {
  Verdict short_verdict = verdict;
  std::string text = EncodeJson(short_verdict);
  while (text.size() > kMaxVerdictBytes && short_verdict.first_failure &&
         !short_verdict.first_failure->stack.empty()) {
    std::string& stack = short_verdict.first_failure->stack;
    Shorten(stack, stack.size() < 64 ? 0 : stack.size() * 3 / 4);
    text = EncodeJson(short_verdict);
  }
  // The last line is the most useful: drop the oldest lines first, then shorten the message, then
  // other long texts.
  while (text.size() > kMaxVerdictBytes && short_verdict.first_failure &&
         !short_verdict.first_failure->last_lines.empty()) {
    auto& lines = short_verdict.first_failure->last_lines;
    if (lines.size() > 1) {
      lines.erase(lines.begin());
    } else if (lines.front().size() > 64) {
      Shorten(lines.front(), lines.front().size() / 2);
    } else {
      lines.clear();
    }
    text = EncodeJson(short_verdict);
  }
  if (text.size() > kMaxVerdictBytes && short_verdict.beginning) {
    Shorten(short_verdict.beginning->message, 256);
    text = EncodeJson(short_verdict);
  }
  while (text.size() > kMaxVerdictBytes && short_verdict.message.size() > 16) {
    Shorten(short_verdict.message, short_verdict.message.size() * 3 / 4);
    text = EncodeJson(short_verdict);
  }
  for (std::size_t limit = 256; text.size() > kMaxVerdictBytes && limit > 0; limit /= 2) {
    Shorten(short_verdict.reason, limit);
    Shorten(short_verdict.message, limit);
    if (auto& failure = short_verdict.first_failure) {
      for (std::string* name : {&failure->pod_uid, &failure->pod, &failure->node}) {
        Shorten(*name, limit);
      }
    }
    text = EncodeJson(short_verdict);
  }
  return text;
}

Result<Verdict> DecodeVerdict(std::string_view text) {
  Result<Verdict> verdict = DecodeJson<Verdict>(text);
  if (!verdict.ok()) return verdict.error().WithContext("reading a verdict");
  return verdict;
}

}  // namespace ringmaster::control
