# ringmaster_reason_texts(REASONS OUT): writes the header OUT with the meanings of reasons and causes, taken from the comments of
# REASONS (common/control/reasons.h), for programs that show them to users.
function(ringmaster_reason_texts reasons out)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${reasons})
  file(READ ${reasons} text)
  # Replace semicolons and brackets, which have a meaning in CMake lists.
  string(REPLACE ";" "<semicolon>" text "${text}")
  string(REPLACE "[" "<open>" text "${text}")
  string(REPLACE "]" "<close>" text "${text}")
  string(REPLACE "\n" ";" lines "${text}")
  set(table "")
  set(Reasons "")
  set(Causes "")
  set(comment "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^// --- (Reasons|Causes)?")
      set(table "${CMAKE_MATCH_1}")
      set(comment "")
    elseif(line MATCHES "^// (.*)")
      string(APPEND comment " ${CMAKE_MATCH_1}")
    elseif(line MATCHES "= \"([A-Za-z]+)\"" AND table)
      set(word ${CMAKE_MATCH_1})
      # Drop the sentences that begin with "Also", which describe other uses of a reason.
      string(REGEX REPLACE " Also ([^.]|\\.[a-zA-Z])*\\." "" comment "${comment}")
      string(REPLACE "`" "" comment "${comment}")
      string(REPLACE "\\" "\\\\" comment "${comment}")
      string(REPLACE "\"" "\\\"" comment "${comment}")
      string(STRIP "${comment}" comment)
      string(APPEND ${table} "    {\"${word}\", \"${comment}\"},\n")
      set(comment "")
    elseif(NOT line MATCHES "^    \"")
      set(comment "")
    endif()
  endforeach()
  foreach(table Reasons Causes)
    if(NOT ${table})
      message(FATAL_ERROR "${reasons} has no section \"--- ${table}\"")
    endif()
    string(REPLACE "<semicolon>" ";" ${table} "${${table}}")
    string(REPLACE "<open>" "[" ${table} "${${table}}")
    string(REPLACE "<close>" "]" ${table} "${${table}}")
  endforeach()
  file(WRITE ${out}.new "#pragma once

// Made from common/control/reasons.h by cli/reason_texts.cmake.

#include <string_view>

namespace ringmaster::cli {

struct WordText {
  std::string_view word;
  std::string_view text;
};

inline constexpr WordText kReasonTexts[] = {
${Reasons}};

inline constexpr WordText kCauseTexts[] = {
${Causes}};

}  // namespace ringmaster::cli
")
  file(COPY_FILE ${out}.new ${out} ONLY_IF_DIFFERENT)
endfunction()
