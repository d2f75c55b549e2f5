#pragma once

// Formats text for a terminal. Untrusted text, such as logs and status messages, may contain
// sequences that change the terminal or hide text; pass it through Printable(). Pure functions.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringmaster::cli {

using Time = std::chrono::system_clock::time_point;

// Returns one line without control characters. Removes colour sequences and line breaks at the end.
// Replaces other line breaks with spaces, and other control characters, except tabs, with ^X.
// Replaces invalid UTF-8 and characters that change the text direction with U+FFFD.
std::string Printable(std::string_view text);

// Aligns cells in columns, two spaces apart. Passes each cell through Printable().
std::string Columns(const std::vector<std::vector<std::string>>& rows,
                    std::string_view indent = "");

// Parses a Kubernetes timestamp. Returns nullopt for any other text.
std::optional<Time> ReadTime(std::string_view rfc3339);

// Returns text such as "45s", "12m", "3h12m" or "2d4h"; "0s" for a negative duration.
std::string DurationText(std::chrono::seconds duration);
// Returns text such as "37 ms", "2.0 s" or "1m5s".
std::string MillisText(int64_t millis);
// Returns text such as "12m ago"; "?" if the argument is not a time.
std::string AgoText(std::string_view rfc3339, Time now);

}  // namespace ringmaster::cli
