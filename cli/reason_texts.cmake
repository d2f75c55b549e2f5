# ringmaster_reason_texts(REASONS OUT): writes OUT, a header with what REASONS, common/control/reasons.h, says of each reason and of
# each cause, for programs that tell people.
function(ringmaster_reason_texts reasons out)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${reasons})
  file(READ ${reasons} text)
  # A list's separators and brackets.
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
      # What else a reason is used for is of no interest here.
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
