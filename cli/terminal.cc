#include "cli/terminal.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <utility>

#include "common/base/utf8.h"

namespace ringmaster::cli {
namespace {

// Returns the length of a sequence that sets colours, ESC [ … m; 0 if there is none.
std::size_t ColourBytes(std::string_view text) {
  if (!text.starts_with("\x1B[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;:", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

// Returns true for Unicode's direction marks, overrides and isolates, and for line separators.
bool ChangesTheLine(int32_t character) {
  return (character >= 0x200E && character <= 0x200F) ||
         (character >= 0x2028 && character <= 0x202E) ||
         (character >= 0x2066 && character <= 0x2069) || character == 0x061C || character == 0xFEFF;
}

std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  }));
}

}  // namespace

std::string Printable(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (const std::size_t colour = ColourBytes(text); colour > 0) {
      text.remove_prefix(colour);
      continue;
    }
    const auto [character, bytes] = FirstCharacter(text);
    if (character == '\n') {
      out += ' ';
    } else if (character == '\t') {
      out += '\t';
    } else if (character >= 0 && (character < 0x20 || character == 0x7F)) {
      out += '^';
      out += static_cast<char>(character ^ 0x40);
    } else if (character < 0 || (character >= 0x80 && character < 0xA0) ||
               ChangesTheLine(character)) {
      out += kReplacement;
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string Columns(const std::vector<std::vector<std::string>>& rows, std::string_view indent) {
  std::vector<std::vector<std::string>> cells;
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    auto& printable = cells.emplace_back();
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      printable.push_back(Printable(row[i]));
      widths[i] = std::max(widths[i], Width(printable.back()));
    }
  }
  std::string out;
  for (const auto& row : cells) {
    std::string line(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] + 2 - Width(row[i]), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::optional<Time> ReadTime(std::string_view rfc3339) {
  std::tm parts{};
  const std::string text(rfc3339.substr(0, 19));
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr || *end != '\0' || !rfc3339.ends_with('Z')) return std::nullopt;
  return std::chrono::system_clock::from_time_t(timegm(&parts));
}

std::string DurationText(std::chrono::seconds duration) {
  const int64_t seconds = std::max<int64_t>(duration.count(), 0);
  const auto two = [](int64_t large, const char* unit, int64_t small, const char* small_unit) {
    std::string text = std::to_string(large) + unit;
    return small == 0 ? text : text + std::to_string(small) + small_unit;
  };
  if (seconds < 60) return std::to_string(seconds) + "s";
  if (seconds < 3600) return two(seconds / 60, "m", seconds < 600 ? seconds % 60 : 0, "s");
  if (seconds < 86400) return two(seconds / 3600, "h", seconds % 3600 / 60, "m");
  return two(seconds / 86400, "d", seconds % 86400 / 3600, "h");
}

std::string MillisText(int64_t millis) {
  if (millis < 1000) return std::to_string(millis) + " ms";
  if (millis >= 60000) return DurationText(std::chrono::seconds(millis / 1000));
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(millis) / 1000);
  return text;
}

std::string AgoText(std::string_view rfc3339, Time now) {
  const std::optional<Time> time = ReadTime(rfc3339);
  if (!time) return "?";
  return DurationText(std::chrono::duration_cast<std::chrono::seconds>(now - *time)) + " ago";
}

}  // namespace ringmaster::cli
