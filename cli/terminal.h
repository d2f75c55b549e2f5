#pragma once

// Formats text for a terminal. Text from others, such as logs and status messages, may contain
// sequences that change the terminal or hide text; pass it through Printable(). Pure functions.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringmaster::cli {

using Time = std::chrono::system_clock::time_point;

// One line without control characters: colours and carriage returns at the end are left out, a line
// break is a space, and any other control character is written as ^X, what is not UTF-8 as U+FFFD,
// what changes the direction of text as U+FFFD, too.
std::string Printable(std::string_view text);

// Columns that are as wide as their widest cell, two blanks apart. Cells go through Printable.
std::string Columns(const std::vector<std::vector<std::string>>& rows,
                    std::string_view indent = "");

// Parses a time as Kubernetes writes it; unset for anything else.
std::optional<Time> ReadTime(std::string_view rfc3339);

// "45s", "12m", "3h12m", "2d4h"; of a negative time "0s".
std::string DurationText(std::chrono::seconds duration);
// "37 ms", "2.0 s", "1m5s".
std::string MillisText(int64_t millis);
// "12m ago"; "?" where the text is not a time.
std::string AgoText(std::string_view rfc3339, Time now);

}  // namespace ringmaster::cli
