#include "cli/log_lines.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <utility>

namespace ringmaster::cli {
namespace {

constexpr std::size_t kMostHeldBytes = std::size_t{256} << 10;  // per stream
constexpr std::size_t kMostRecent = 16384;
// The longest delay with which the launcher logs a worker's line, including clock differences.
constexpr int64_t kRepeatNanos = 1'000'000'000;
constexpr int64_t kRepeatMillis = 1000;

// Returns the time at the beginning of `text`, and the length of the time's text in bytes.
std::optional<std::pair<int64_t, std::size_t>> TimeAt(std::string_view text) {
  const std::size_t end = text.find(' ');
  const std::string time(text.substr(0, std::min<std::size_t>(end, 40)));
  std::tm parts{};
  const char* rest = strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  int64_t nanos = 0;
  if (*rest == '.') {
    int64_t unit = 100'000'000;
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest, unit /= 10) nanos += (*rest - '0') * unit;
  }
  int64_t offset = 0;
  if (*rest == '+' || *rest == '-') {
    char* minutes = nullptr;
    offset = std::strtol(rest, &minutes, 10) * 3600;
    if (*minutes != ':') return std::nullopt;
    offset += std::strtol(minutes + 1, nullptr, 10) * (*rest == '-' ? -60 : 60);
  } else if (*rest != 'Z') {
    return std::nullopt;
  }
  const int64_t seconds = timegm(&parts) - offset;
  return std::pair(seconds * 1'000'000'000 + nanos, time.size());
}

std::optional<int> NumberUntil(std::string_view text, std::string_view end) {
  int number = -1;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  const std::string_view rest = text.substr(static_cast<std::size_t>(at - text.data()));
  return rest.starts_with(end) ? std::optional(number) : std::nullopt;
}

// Reads "[rank 3] text".
void ReadRank(LogLine& line) {
  constexpr std::string_view kMark = "[rank ";
  if (!line.text.starts_with(kMark)) return;
  const auto rank = NumberUntil(std::string_view(line.text).substr(kMark.size()), "] ");
  if (!rank) return;
  line.rank = *rank;
  line.text.erase(0, line.text.find("] ") + 2);
}

// Returns true for a line like "2026-01-31T23:59:59.999Z info launcher …", also in JSON format.
bool IsOfLauncher(std::string_view text) {
  if (text.starts_with("{\"time\":")) {
    return text.find("\"program\":\"launcher\"") != std::string_view::npos;
  }
  const std::string_view beginning = text.substr(0, 42);
  return TimeAt(text) && beginning.find(" launcher ") != std::string_view::npos;
}

// Reads "[1,3]<stdout>: text"; the space is optional, and more text may precede the number.
void ReadTag(LogLine& line) {
  line.may_repeat = true;
  line.rank = 0;
  if (!line.text.starts_with('[')) return;
  const std::size_t end = line.text.find(']');
  const std::string_view after =
      std::string_view(line.text).substr(std::min(end, line.text.size()));
  if (!after.starts_with("]<stdout>:") && !after.starts_with("]<stderr>:")) return;
  const std::size_t comma = line.text.rfind(',', end);
  if (comma == std::string::npos) return;
  const auto rank = NumberUntil(std::string_view(line.text).substr(comma + 1), "]");
  if (!rank) return;
  line.rank = *rank;
  const std::size_t text = end + 10;
  line.text.erase(0, line.text.substr(text).starts_with(' ') ? text + 1 : text);
}

std::size_t HashOf(const LogLine& line) {
  return std::hash<std::string>()(std::to_string(line.rank) + " " + line.text);
}

}  // namespace

LogLine ReadLogLine(std::string_view text, bool of_launcher, int64_t otherwise) {
  LogLine line{.nanos = otherwise};
  if (const auto time = TimeAt(text)) {
    line.nanos = time->first;
    line.time = text.substr(0, time->second);
    text.remove_prefix(std::min(time->second + 1, text.size()));
  }
  line.text = text;
  if (!of_launcher) {
    ReadRank(line);
  } else if (!IsOfLauncher(line.text)) {
    ReadTag(line);
  }
  return line;
}

int LogMerge::Open(const std::string& name) {
  streams_.emplace(++opened_, Stream{.name = name});
  return opened_;
}

void LogMerge::Add(int stream, LogLine line, int64_t now_millis) {
  Stream& to = streams_.at(stream);
  to.bytes += line.text.size() + sizeof(Held);
  if (line.may_repeat) {
    line.nanos += kRepeatNanos;
    now_millis += kRepeatMillis;
  }
  to.held.push_back({std::move(line), now_millis});
}

void LogMerge::Close(int stream) { streams_.at(stream).open = false; }

bool LogMerge::Full(int stream) const {
  const auto found = streams_.find(stream);
  return found != streams_.end() && found->second.bytes > kMostHeldBytes;
}

void LogMerge::Show(int64_t now_millis) {
  for (;;) {
    std::erase_if(streams_, [](const auto& entry) {
      return !entry.second.open && entry.second.held.empty();
    });
    Stream* first = nullptr;
    bool all_have_one = true;
    for (auto& [id, stream] : streams_) {
      if (stream.held.empty()) {
        all_have_one = false;
      } else if (first == nullptr ||
                 stream.held.front().line.nanos < first->held.front().line.nanos) {
        first = &stream;
      }
    }
    if (first == nullptr) return;
    const bool waited = limits_.held_millis > 0 &&
                        now_millis - first->held.front().arrived_millis >= limits_.held_millis;
    if (!all_have_one && !waited) return;
    ShowFirst(*first);
  }
}

void LogMerge::ShowFirst(Stream& stream) {
  const LogLine line = std::move(stream.held.front().line);
  stream.held.pop_front();
  stream.bytes -= line.text.size() + sizeof(Held);
  if (!Repeats(line)) print_(stream.name, line);
}

bool LogMerge::Repeats(const LogLine& line) {
  if (line.rank < 0) return false;
  const std::size_t hash = HashOf(line);
  if (!line.may_repeat) {
    ++recent_[hash];
    recent_in_order_.push_back(hash);
    if (recent_in_order_.size() > kMostRecent) {
      const auto oldest = recent_.find(recent_in_order_.front());
      if (oldest != recent_.end() && --oldest->second <= 0) recent_.erase(oldest);
      recent_in_order_.pop_front();
    }
    return false;
  }
  return recent_.contains(hash);
}

}  // namespace ringmaster::cli
