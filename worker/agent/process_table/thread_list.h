#pragma once

// Reads the kernel's information about a process and its threads (/proc/<pid>), in any state. The
// parsers are safe on any input.

#include <cstddef>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ringmaster::agent {

struct ThreadInfo {
  pid_t id = 0;
  std::string name{};
  char state = '?';       // as ps shows it: R running, S sleeping, D uninterruptible, T stopped
  std::string wchan{};    // where the thread waits in the kernel; empty: not waiting, or unknown
  std::string syscall{};  // number of the current system call; empty: none, or unknown

  // Whether the thread runs no signal handlers in its present state.
  bool Held() const { return state != 'R' && state != 'S'; }
};

// The state letter in the text of a /proc/<pid>/stat; '?' if there is none.
char StateIn(std::string_view stat);

// The state of the process, which is that of its first thread.
char StateOf(pid_t process);

// Whether SIGKILL is ending or has ended the process, according to the text of its
// /proc/<pid>/stat. The file of a process that ended exists until its parent reaps it.
bool SaysKilled(std::string_view stat);
bool IsBeingKilled(pid_t process);

// Lists at most `limit` threads, the first thread first. Sets `count` to the number of all threads.
std::vector<ThreadInfo> ThreadsOf(pid_t process, std::size_t limit, std::size_t* count);

// Whether the process handles this signal instead of being ended by it.
bool Handles(pid_t process, int signal);

}  // namespace ringmaster::agent
