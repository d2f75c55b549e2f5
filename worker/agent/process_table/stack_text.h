#pragma once

// Formats the threads of a rank: the kernel's list of threads, with the stack of each thread that
// reported one. Pure functions.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "worker/agent/process_table/thread_list.h"

namespace ringmaster::agent {

// Returns one line per thread, "thread 17 ringmaster-trai, sleeping in futex_wait_queue, system
// call 202", and one per frame, "  #0 libc.so.6(recvmsg+0x1f)", with the names of C++ functions as
// in the source. `written`: blocks of "thread <id>\n" and frames as glibc's backtrace_symbols_fd
// prints them. `count`: the number of all threads; `threads` may contain only the first of them.
std::string StackText(const std::vector<ThreadInfo>& threads, std::size_t count,
                      std::string_view written);

// Returns the first lines that fit into `limit` bytes (at least 64) and a line about the others.
std::string Shortened(const std::string& text, std::size_t limit);

// Formats one frame: "/usr/lib/libc.so.6(read+0x1) [0x7f]" -> "libc.so.6(read+0x1)".
std::string FrameText(std::string_view frame);

}  // namespace ringmaster::agent
